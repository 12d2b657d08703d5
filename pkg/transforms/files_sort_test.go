package transforms

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"testing"
)

func TestRecordSorter(t *testing.T) {
	for name, tc := range map[string]struct {
		records, limit int
		runs           int // that there must be at least
	}{
		"nothing":                     {0, 1000, 0},
		"all held":                    {100, 1 << 20, 0},
		"runs and some held":          {1000, 2000, 10},
		"runs and none held":          {1000, 1, 10},
		"more runs than are open":     {1000, 100, 10},
		"far more than can be merged": {20 * maxRuns, 1, 10},
	} {
		t.Setenv("TMPDIR", t.TempDir())
		s := &recordSorter{limit: tc.limit}
		var want [][]byte
		held, spilled := 0, 0
		for i := range tc.records {
			record := fmt.Appendf(nil, "%d", i*7919%1009) // no order, and some twice
			want = append(want, record)
			if err := s.add(record); err != nil {
				t.Fatal(err)
			}
			held, spilled = max(held, s.bytes), max(spilled, s.count)
			if len(s.runs) > maxRuns {
				t.Fatalf("%s: %d runs", name, len(s.runs))
			}
		}
		slices.SortFunc(want, bytes.Compare)
		var got [][]byte
		if err := s.each(func(record []byte) error { got = append(got, bytes.Clone(record)); return nil }); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !slices.EqualFunc(got, want, bytes.Equal) {
			t.Errorf("%s: %d records, of %d, in another order", name, len(got), len(want))
		}
		if held > tc.limit || spilled < tc.runs {
			t.Errorf("%s: %d bytes were held, and %d runs written", name, held, spilled)
		}
		if err := s.close(); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
			t.Errorf("%s: %v is left behind, %v", name, left, err)
		}
	}
}

// If the disk fails, the result is an error and not a shorter file.
func TestRecordSorterFails(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()+"/none")
	if err := (&recordSorter{limit: 1}).add([]byte("a")); err == nil {
		t.Error("a run was written nowhere")
	}
	t.Setenv("TMPDIR", t.TempDir())
	s := &recordSorter{limit: 1}
	for _, record := range []string{"a", "b"} {
		if err := s.add([]byte(record)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(s.runs[1], 1); err != nil {
		t.Fatal(err)
	}
	if err := s.each(func([]byte) error { return nil }); err == nil {
		t.Error("a run that was cut short was read to its end")
	}
	if err := os.Remove(s.runs[0]); err != nil {
		t.Fatal(err)
	}
	if err := s.each(func([]byte) error { return nil }); err == nil {
		t.Error("a run that is gone was not missed")
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
}
