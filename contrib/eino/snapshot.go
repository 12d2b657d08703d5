package eino

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cloudwego/eino/compose"
	"github.com/google/uuid"

	"github.com/beamagents/beamagents-go/pkg/adapter"
)

// formVersion is the version of the snapshot's form.
const formVersion = 1

// snapshot is the snapshot of a suspended activation.
type snapshot struct {
	Version    int             `json:"version"`
	Checkpoint json.RawMessage `json:"checkpoint"`
	// Waiting are the calls without an answer, by the ids of their interrupts.
	Waiting adapter.Waiting `json:"waiting"`
	// Foreign are the ids of the calls that Options.Ask has made.
	Foreign []string `json:"foreign,omitempty"`
}

func (s snapshot) bytes() ([]byte, error) {
	s.Version = formVersion
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("eino: the snapshot cannot be encoded: %w", err)
	}
	return b, nil
}

func (s *snapshot) read(b []byte) error {
	if err := json.Unmarshal(b, s); err != nil {
		return fmt.Errorf("eino: the snapshot cannot be read: %w", err)
	}
	if s.Version != formVersion {
		return fmt.Errorf("eino: the snapshot has form version %d, and this build reads %d", s.Version, formVersion)
	}
	return nil
}

// Migrate rewrites the checkpoint in a snapshot of [Run]. Use it in MigrateSnapshot. The
// checkpoint is the JSON that Eino wrote.
func Migrate(from []byte, rewrite func(checkpoint []byte) ([]byte, error)) ([]byte, error) {
	var s snapshot
	if err := s.read(from); err != nil {
		return nil, err
	}
	checkpoint, err := rewrite(s.Checkpoint)
	if err != nil {
		return nil, err
	}
	if s.Checkpoint, err = sorted(checkpoint); err != nil {
		return nil, err
	}
	return s.bytes()
}

// ordered sorts interrupts by node, so that the order does not depend on which node was first.
// Interrupts of one node keep their order.
func ordered(points []*compose.InterruptCtx) []*compose.InterruptCtx {
	node := func(p *compose.InterruptCtx) string {
		i := slices.IndexFunc(p.Address, func(s compose.AddressSegment) bool { return s.Type == compose.AddressSegmentTool })
		if i < 0 {
			i = len(p.Address)
		}
		return p.Address[:i].String()
	}
	points = slices.Clone(points)
	slices.SortStableFunc(points, func(a, b *compose.InterruptCtx) int { return strings.Compare(node(a), node(b)) })
	return points
}

// namespace is the namespace of the ids of interrupts.
var namespace = uuid.MustParse("5d0c7f0e-58a5-5b0f-9d0f-3c7d9f3f2a41")

// stable returns a checkpoint that depends neither on random numbers nor on the order of maps,
// and maps the old ids of interrupts to new ones. A new id is derived from the address of the
// interrupt.
func stable(checkpoint []byte, points []*compose.InterruptCtx) ([]byte, map[string]string, error) {
	ids, seen := map[string]string{}, map[string]int{}
	var replace []string
	for _, p := range points {
		for ; p != nil && ids[p.ID] == ""; p = p.Parent {
			at := p.Address.String()
			ids[p.ID] = uuid.NewSHA1(namespace, []byte(at+"#"+strconv.Itoa(seen[at]))).String()
			replace = append(replace, p.ID, ids[p.ID])
			seen[at]++
		}
	}
	b, err := sorted([]byte(strings.NewReplacer(replace...).Replace(string(checkpoint))))
	return b, ids, err
}

// sorted returns a checkpoint with sorted object members. It also sorts the names of the nodes
// that run again, which Eino writes in the order in which they ended.
func sorted(checkpoint []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(checkpoint))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	if err == nil && dec.More() {
		err = errors.New("there is data after its end")
	}
	if err != nil {
		return nil, fmt.Errorf("eino: the checkpoint is not JSON, which Store needs (leave out compose.WithSerializer): %w", err)
	}
	sortReruns(v)
	return json.Marshal(v)
}

func sortReruns(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			sortReruns(e)
		}
	case map[string]any:
		for _, e := range v {
			sortReruns(e)
		}
		if v["InterruptID2Addr"] == nil || v["SkipPreHandler"] == nil {
			return // not a graph
		}
		reruns, _ := v["RerunNodes"].(map[string]any)
		nodes, _ := reruns["SliceValues"].([]any)
		slices.SortFunc(nodes, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
}
