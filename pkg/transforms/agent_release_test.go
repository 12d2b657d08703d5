package transforms

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/golden/handover"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// The tests of all releases know the file of agentWriter, and what a script means to scriptedAgent.
var agentWriter = handover.Writer{Package: "pkg/transforms", Test: "TestWriteAgents", Flag: "write-agents", Part: "agents"}

var writeAgents = flag.String(agentWriter.Flag, "", "folder to write the state of RunAgent to, for a later build to resume")

const agentsFile = "agents.json"

// storyVersion is the version of the snapshots in the stories.
const storyVersion = 3

// agentStory is a key between two bundles, and what happened to it next. Next begins with the input
// that resumes it, if there is one.
type agentStory struct {
	Name   string            `json:"name"` // of the story, and the key
	Route  string            `json:"route,omitempty"`
	Cells  map[string][]byte `json:"cells"` // as a runner holds them
	Timers []storyTimer      `json:"timers"`
	Next   []storyOp         `json:"next"`
	// Said has what was emitted in Next, and Intents has the ids of the intents in it.
	Said    []string `json:"said"`
	Intents []string `json:"intents"`
}

type storyTimer struct {
	Family string `json:"family"`
	Tag    string `json:"tag"`
	FireMS int64  `json:"fire_ms"`
	HoldMS int64  `json:"hold_ms"`
}

// storyOp is a bundle of envelopes, and then the passing of event time.
type storyOp struct {
	Envelopes [][]byte `json:"envelopes,omitempty"`
	AdvanceMS int64    `json:"advance_ms"`
}

const (
	storyStart = 1_000_000
	storyHour  = 3_600_000
	storyDay   = 24 * storyHour
)

// toldStory says what this build does with a key before it hands the key over, what happens to the
// key then, and what is emitted.
type toldStory struct {
	name, route string
	before      func(k *agentKit, key string)
	next        func(k *agentKit, key string, tell func(advanceMS int64, envelopes ...*pb.AgentEnvelope))
	want        []string
}

func suspends(s script, next *script) script {
	s.Count, s.Put, s.Then, s.Timeout, s.Next = "n", []string{"a=1"}, "suspend", storyHour, next
	return s
}

// asks makes a key that waits for a result and an approval, with two events deferred.
func asks(k *agentKit, key string) {
	end := &script{Count: "n", Act: []string{"close"}}
	approved := suspends(script{Use: true}, &script{Count: "n", Then: "suspend", Timeout: storyHour, Next: end})
	k.run(eventFor(key, storyStart, suspends(script{ID: "first", Act: []string{"look"}, Ask: []string{"refund"}}, &approved)))
	k.run(
		eventFor(key, storyStart+1000, script{ID: "second", Count: "n"}),
		eventFor(key, storyStart+500, suspends(script{ID: "third", Act: []string{"look"}}, end)),
	)
}

func toldStories() []toldStory {
	type tell = func(advanceMS int64, envelopes ...*pb.AgentEnvelope)
	const at = storyStart + storyHour/2
	open := func(k *agentKit, key string) []*pb.ToolIntent { return k.control(key).GetPending() }
	return []toldStory{
		{
			name: "approved", before: asks,
			next: func(k *agentKit, key string, tell tell) {
				tell(at, approvalFor(open(k, key)[1], at, true))
				tell(at, eventFor(key, at, script{ID: "second", Count: "n"})) // once more
				tell(at+1000, resultFor(open(k, key)[1], at+1000, "refunded"))
				tell(at+2000, resultFor(open(k, key)[0], at+2000, "seen"))
				tell(at+3000, resultFor(open(k, key)[0], at+3000, "seen by the third"))
			},
			want: []string{
				"output@2800000 approval approved=true expired=0 payload=",
				"output@2800000 n 2 at 2800000",
				"output@2801000 tool_result approved=false expired=0 payload=refunded",
				"output@2801000 n 3 at 2801000",
				"output@2802000 tool_result approved=false expired=0 payload=seen",
				"output@2802000 n 4 at 2802000",
				"output@2802000 n 5 at 2802000",
				"output@2802000 n 6 at 2802000",
				"output@2803000 tool_result approved=false expired=0 payload=seen by the third",
				"output@2803000 n 7 at 2803000",
				"intent@2800000 TOOL refund",
				"intent@2802000 TOOL close",
				"intent@2802000 TOOL look",
				"intent@2803000 TOOL close",
			},
		},
		{
			name: "timed out", before: asks,
			next: func(k *agentKit, key string, tell tell) {
				asked := open(k, key)[1]
				tell(storyStart + storyHour)
				tell(storyStart+storyHour, approvalFor(asked, storyStart+storyHour, true))
				tell(storyStart + 3*storyDay)
				tell(storyStart+3*storyDay, eventFor(key, storyStart+3*storyDay, script{ID: "first", Count: "n", Act: []string{"look"}}))
			},
			want: []string{
				"output@4600000 denied",
				"output@4600000 n 2 at 4600000",
				"output@4600000 n 3 at 4600000",
				"output@8200000 denied",
				"output@260200000 n 1 at 260200000",
				"intent@4600000 TOOL look",
				"intent@260200000 TOOL look",
				"error@4600000 orphaned_result/unknown_intent",
			},
		},
		{
			name: "resumed by its deadline", route: "resume",
			before: func(k *agentKit, key string) {
				k.run(
					eventFor(key, storyStart, suspends(script{Ask: []string{"refund"}}, &script{Count: "n"})),
					eventFor(key, storyStart+1000, script{Count: "n"}),
				)
			},
			next: func(_ *agentKit, _ string, tell tell) { tell(storyStart + storyHour) },
			want: []string{
				"output@4600000 timed_out approved=false expired=0 payload=",
				"output@4600000 n 2 at 4600000",
				"output@4600000 n 3 at 4600000",
			},
		},
		{
			name: "escalated", route: "escalate",
			before: func(k *agentKit, key string) {
				approved := suspends(script{Use: true}, &script{Count: "n"})
				k.run(
					eventFor(key, storyStart, suspends(script{Ask: []string{"refund"}}, &approved)),
					eventFor(key, storyStart+1000, script{Count: "n"}),
				)
				k.advance(storyStart + storyHour)
			},
			next: func(k *agentKit, key string, tell tell) {
				tell(storyStart+storyHour+1000, approvalFor(open(k, key)[1], storyStart+storyHour+1000, true))
				tell(storyStart+storyHour+2000, resultFor(open(k, key)[0], storyStart+storyHour+2000, "refunded"))
			},
			want: []string{
				"output@4601000 approval approved=true expired=0 payload=",
				"output@4601000 n 2 at 4601000",
				"output@4602000 tool_result approved=false expired=0 payload=refunded",
				"output@4602000 n 3 at 4602000",
				"output@4602000 n 4 at 4602000",
				"intent@4601000 TOOL refund",
			},
		},
		{
			name: "expired", route: "resume",
			before: func(k *agentKit, key string) {
				wait := suspends(script{}, &script{Count: "n"})
				k.run(eventFor(key, storyStart, suspends(script{Act: []string{"look"}, Expire: 1000}, &wait)))
				k.advance(storyStart + 1000)
			},
			next: func(k *agentKit, key string, tell tell) {
				late := &pb.ToolIntent{IntentId: k.control(key).GetExpiredIntentIds()[0], EntityKey: []byte(key)}
				tell(at, resultFor(late, at, "late"))
				tell(storyStart + 2*storyHour)
			},
			want: []string{
				"output@4601000 timed_out approved=false expired=0 payload=",
				"output@4601000 n 3 at 4601000",
				"error@2800000 orphaned_result/intent_expired",
			},
		},
		{
			name: "deferred events are left",
			before: func(k *agentKit, key string) {
				k.run(eventFor(key, storyStart, suspends(script{Act: []string{"look"}}, &script{Count: "n"})))
				k.advance(storyStart)
				for i := range int64(12) {
					k.run(eventFor(key, storyStart+i, script{Count: "n"}))
				}
				k.run(resultFor(open(k, key)[0], at, "seen"))
			},
			next: func(_ *agentKit, _ string, tell tell) { tell(at) },
			want: []string{
				"output@2800000 n 11 at 2800000",
				"output@2800000 n 12 at 2800000",
				"output@2800000 n 13 at 2800000",
				"output@2800000 n 14 at 2800000",
			},
		},
		{
			name: "idle",
			before: func(k *agentKit, key string) {
				k.run(eventFor(key, storyStart, script{ID: "first", Count: "n", Put: []string{"a=1"}}))
				k.advance(storyStart)
			},
			next: func(_ *agentKit, key string, tell tell) {
				tell(at, eventFor(key, at, script{ID: "first", Count: "n"}), eventFor(key, at, script{ID: "second", Count: "n", Act: []string{"look"}}))
				tell(at+storyDay-1, eventFor(key, at, script{Count: "n"}))
				tell(at + storyDay) // now it is cleared
				tell(at+2*storyDay, eventFor(key, at+2*storyDay, script{ID: "first", Count: "n", Act: []string{"look"}}))
			},
			want: []string{
				"output@2800000 n 2 at 2800000",
				"output@2800000 n 3 at 2800000",
				"output@175600000 n 1 at 175600000",
				"intent@2800000 TOOL look",
				"intent@175600000 TOOL look",
			},
		},
	}
}

func storyKit(t *testing.T, route string, version uint32, concurrency int) *agentKit {
	t.Helper()
	return newAgentKit(t, AgentParams{
		Name: "stories", Agent: &scriptedAgent{Route: route, Version: version}, Concurrency: concurrency, TTL: storyDay * time.Millisecond,
	})
}

// storiesOfThisBuild hands over each key as both forms of RunAgent leave it.
func storiesOfThisBuild(t *testing.T) (all []agentStory) {
	t.Helper()
	for _, concurrency := range forms {
		for _, told := range toldStories() {
			key := fmt.Sprintf("%s, %d", told.name, concurrency)
			k := storyKit(t, told.route, storyVersion, concurrency)
			told.before(k, key)
			s := agentStory{Name: key, Route: told.route, Cells: map[string][]byte{}}
			for _, cell := range agentCells {
				if b := k.Bytes(key, cell); b != nil {
					s.Cells[cell] = b
				}
			}
			for _, timer := range k.Timers(key) {
				s.Timers = append(s.Timers, storyTimer{timer.Family, timer.Tag, timer.FireMS, int64(timer.EventTime)})
			}
			k, err := s.restore(t, storyVersion, concurrency)
			if err != nil {
				t.Fatal(err)
			}
			told.next(k, key, func(advanceMS int64, envelopes ...*pb.AgentEnvelope) {
				op := storyOp{AdvanceMS: advanceMS}
				for _, env := range envelopes {
					b, err := proto.MarshalOptions{Deterministic: true}.Marshal(env)
					if err != nil {
						t.Fatal(err)
					}
					op.Envelopes = append(op.Envelopes, b)
				}
				if err := k.play(op); err != nil {
					t.Fatal(err)
				}
				s.Next = append(s.Next, op)
			})
			s.Said, s.Intents = k.said(), k.intentIDs()
			all = append(all, s)
			var said []string
			for _, line := range s.Said {
				said = append(said, strings.TrimPrefix(line, key+" "))
			}
			if diff := cmp.Diff(told.want, said); diff != "" {
				t.Errorf("%s (-want +got):\n%s", key, diff)
			}
		}
	}
	return all
}

func (k *agentKit) intentIDs() (ids []string) {
	for _, e := range k.intents.All() {
		ids = append(ids, e.Value.GetIntentId())
	}
	return ids
}

// restore makes a job with the key.
func (s agentStory) restore(t *testing.T, version uint32, concurrency int) (*agentKit, error) {
	t.Helper()
	k := storyKit(t, s.Route, version, concurrency)
	for cell, b := range s.Cells {
		k.SetBytes(s.Name, cell, b)
	}
	return k, k.Run(s.Name, func(_ beamstate.Provider, tp timers.Provider) error {
		for _, timer := range s.Timers {
			tp.Set(timers.TimerMap{
				Family: timer.Family, Tag: timer.Tag, FireTimestamp: mtime.Time(timer.FireMS), HoldTimestamp: mtime.Time(timer.HoldMS),
			})
		}
		return nil
	})
}

func (k *agentKit) play(op storyOp) error {
	var envelopes []*pb.AgentEnvelope
	for _, b := range op.Envelopes {
		env := new(pb.AgentEnvelope)
		if err := proto.Unmarshal(b, env); err != nil {
			return err
		}
		envelopes = append(envelopes, env)
	}
	if err := k.try(envelopes...); err != nil {
		return err
	}
	return k.Fire(op.AdvanceMS, k.onTimer)
}

// resume plays what happened next, with an agent whose snapshots have the given version.
func (s agentStory) resume(t *testing.T, version uint32, concurrency int) (*agentKit, error) {
	t.Helper()
	k, err := s.restore(t, version, concurrency)
	for _, op := range s.Next {
		if err == nil {
			err = k.play(op)
		}
	}
	return k, err
}

// resumes reports whether the key continues from its snapshot.
func (s agentStory) resumes() bool {
	return slices.ContainsFunc(s.Said, func(line string) bool { return strings.Contains(line, " payload=") })
}

// check resumes the key with the agent that has suspended it, and with the next one, which
// migrates the snapshot.
func (s agentStory) check(t *testing.T, concurrency int) error {
	t.Helper()
	for _, version := range []uint32{storyVersion, storyVersion + 1} {
		k, err := s.resume(t, version, concurrency)
		if err != nil {
			return err
		}
		migrated, want := 0, 0
		said := slices.DeleteFunc(k.said(), func(line string) bool {
			found := strings.HasSuffix(line, fmt.Sprintf(" migrated from %d", storyVersion))
			if found {
				migrated++
			}
			return found
		})
		if version > storyVersion && s.resumes() {
			want = 1
		}
		if migrated != want {
			return fmt.Errorf("version %d: MigrateSnapshot has run %d times, want %d", version, migrated, want)
		}
		if diff := cmp.Diff(s.Said, said); diff != "" {
			return fmt.Errorf("version %d (-the build that stored it +this one):\n%s", version, diff)
		}
		if diff := cmp.Diff(s.Intents, k.intentIDs()); diff != "" {
			return fmt.Errorf("version %d: intents (-the build that stored it +this one):\n%s", version, diff)
		}
	}
	return s.checkRollBack(t, concurrency)
}

// checkRollBack answers the key with an agent that does not know its snapshot yet. The answer
// becomes a dead letter, the suspension stays, and its deadline fires as usual.
func (s agentStory) checkRollBack(t *testing.T, concurrency int) error {
	t.Helper()
	if !s.resumes() || s.Route != "" {
		return nil
	}
	k, err := s.restore(t, storyVersion-1, concurrency)
	if err != nil {
		return err
	}
	before := k.control(s.Name)
	op := s.Next[0]
	at := op.AdvanceMS
	if err := k.play(op); err != nil {
		return err
	}
	after := k.control(s.Name)
	refused := fmt.Sprintf("%s error@%d activation_error/snapshot_version", s.Name, at)
	if said := k.said(); !slices.Equal(said, []string{refused}) {
		return fmt.Errorf("an older agent says %q, want %q", said, refused)
	}
	if !proto.Equal(before.GetContinuation(), after.GetContinuation()) || len(before.GetPending()) != len(after.GetPending()) ||
		before.GetSnapshotVersion() != after.GetSnapshotVersion() {
		return fmt.Errorf("an older agent has changed the suspension:\n%v\n%v", before, after)
	}
	if err := k.play(storyOp{AdvanceMS: before.GetContinuation().GetDeadlineMs() + 10*storyHour}); err != nil {
		return err
	}
	if said := k.said(); !slices.ContainsFunc(said, func(line string) bool { return strings.HasSuffix(line, " denied") }) {
		return fmt.Errorf("an older agent says at the deadline %q, want denied", said)
	}
	return nil
}

// A later build runs TestWriteAgents in a process of its own, to get the state of this build. So
// does make freeze.
func TestWriteAgents(t *testing.T) {
	dir := *writeAgents
	if dir == "" {
		dir = t.TempDir()
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	b, err := json.MarshalIndent(storiesOfThisBuild(t), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, agentsFile)
	if err := os.WriteFile(file, append(b, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	readAgents(t, file)
}

// readAgents resumes the keys of another build in this one.
func readAgents(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []agentStory
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if len(all) < 2*7 {
		t.Fatalf("%s: only %d keys", file, len(all))
	}
	for _, s := range all {
		for _, concurrency := range forms {
			if err := s.check(t, concurrency); err != nil {
				t.Errorf("%s: key %q, concurrency %d: %v", file, s.Name, concurrency, err)
			}
		}
	}
}

// The check fails if state is lost, or continues in another way.
func TestReadAgentsCanFail(t *testing.T) {
	for _, s := range storiesOfThisBuild(t) {
		for name, fault := range map[string]func(s *agentStory){
			"another output":  func(s *agentStory) { s.Said = append(slices.Clone(s.Said), "more") },
			"another intent":  func(s *agentStory) { s.Intents = append(slices.Clone(s.Intents), "more") },
			"control is gone": func(s *agentStory) { s.Cells = without(s.Cells, "control") },
			"control cut off": func(s *agentStory) {
				c := s.Cells["control"]
				s.Cells = without(s.Cells, "control")
				s.Cells["control"] = c[:len(c)-1]
			},
			"memory is gone":           func(s *agentStory) { s.Cells = without(s.Cells, "memory") },
			"deferred events are gone": func(s *agentStory) { s.Cells = without(s.Cells, "deferred") },
			"timers are gone":          func(s *agentStory) { s.Timers = nil },
		} {
			broken := s
			fault(&broken)
			if name == "deferred events are gone" && s.Cells["deferred"] == nil ||
				name == "timers are gone" && s.Route == "escalate" {
				continue // there are none; it is answered in time
			}
			if broken.check(t, 1) == nil {
				t.Errorf("%s, %s: passes", s.Name, name)
			}
		}
	}
}

func without(cells map[string][]byte, name string) map[string][]byte {
	cells = maps.Clone(cells)
	delete(cells, name)
	return cells
}

// This build resumes what each release has stored.
func TestAgentsOfReleases(t *testing.T) { agentWriter.Frozen(t, readAgents) }

// Older builds, which are built from the repository, hand their keys over to this build: each
// release whose tag is in the repository, and the last commit.
func TestAgentHandover(t *testing.T) { agentWriter.Built(t, readAgents) }
