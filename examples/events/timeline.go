package main

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/beamagents/beamagents-go/pkg/events"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[*timelineFn]())
	register.Iter1[*pb.AgentEnvelope]()
}

// timelines returns the story of each session as a PCollection<string>.
func timelines(s beam.Scope, bySession beam.PCollection) beam.PCollection {
	s = s.Scope("Timelines")
	return beam.ParDo(s, &timelineFn{}, beam.GroupByKey(s, bySession))
}

type timelineFn struct{}

// moment is an event with its position.
type moment struct {
	ms       int64
	run      string
	sequence uint64
	text     string
	event    events.Envelope
}

// ProcessElement emits a story at the time of its first event.
func (*timelineFn) ProcessElement(session []byte, next func(**pb.AgentEnvelope) bool) (beam.EventTime, string, error) {
	var moments []moment
	var carrier *pb.AgentEnvelope
	for next(&carrier) {
		env, err := events.DecodeEnvelope(carrier.GetExternalEvent())
		if err != nil {
			return 0, "", err
		}
		m := moment{ms: carrier.GetEventTimeMs(), text: string(carrier.GetExternalEvent()), event: env}
		run, _ := env.Metadata.Get("run_id")
		sequence, _ := env.Metadata.Get("sequence")
		m.run, _ = run.Str()
		m.sequence, _ = sequence.Uint64()
		moments = append(moments, m)
	}
	slices.SortFunc(moments, func(a, b moment) int {
		return cmp.Or(cmp.Compare(a.ms, b.ms), cmp.Compare(a.run, b.run), cmp.Compare(a.sequence, b.sequence), cmp.Compare(a.text, b.text))
	})
	// A source that delivers at least once may repeat events.
	moments = slices.CompactFunc(moments, func(a, b moment) bool { return a.text == b.text })
	var story strings.Builder
	fmt.Fprintf(&story, "session %s, %d events", oneLine(string(session), 60), len(moments))
	for _, m := range moments {
		fmt.Fprintf(&story, "\n%9d ms  %-8s %4d  %-24s %s", m.ms-moments[0].ms, oneLine(m.run, 20), m.sequence,
			oneLine(m.event.Type, 40), describe(m.event.Project()))
	}
	return mtime.FromMilliseconds(moments[0].ms), story.String(), nil
}

// describe describes an event in a few words.
func describe(p events.Projection) string {
	var words []string
	word := func(s *string) {
		if s != nil && *s != "" {
			words = append(words, *s)
		}
	}
	if p.Turn != nil {
		words = append(words, fmt.Sprintf("turn %d", *p.Turn))
	}
	word(p.ToolName)
	if p.ExitCode != nil {
		words = append(words, fmt.Sprintf("exit %d", *p.ExitCode))
	}
	word(p.ErrorKindJSON)
	word(p.Error)
	word(p.Prompt)
	word(p.Text)
	word(p.ToolOutput)
	if p.TotalTokens != nil {
		words = append(words, fmt.Sprintf("%d tokens", *p.TotalTokens))
	}
	word(p.VerificationSummaryText)
	if len(words) == 0 {
		word(p.DataJSON)
	}
	return oneLine(strings.Join(words, " | "), 100)
}

// oneLine cuts a text to its first limit characters. It replaces what a terminal does not show
// as it is by spaces: line breaks, escape sequences, changes of direction.
func oneLine(text string, limit int) string {
	runes := []rune(text)
	if len(runes) > limit {
		runes = append(runes[:limit-1], '…')
	}
	for i, r := range runes {
		if !unicode.IsPrint(r) {
			runes[i] = ' '
		}
	}
	return strings.TrimSpace(string(runes))
}
