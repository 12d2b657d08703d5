package transforms

import (
	"bufio"
	"bytes"
	"container/heap"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

const (
	// sortBytes bounds the records that a worker holds in memory, in bytes.
	sortBytes = 32 << 20
	// recordOverhead is the memory of a record beside its content, in bytes.
	recordOverhead = 24
	// maxRuns bounds the files that are merged at once, and so the open files.
	maxRuns = 64
)

// recordSorter sorts any number of records with bounded memory. Records beyond the bound are
// written to a temporary folder as runs, which are sorted files.
type recordSorter struct {
	limit int // the bound of the records in memory, in bytes

	held  [][]byte
	bytes int
	dir   string
	runs  []string
	count int // runs written so far, which numbers their names
}

// add keeps record. The caller must not change it afterwards.
func (s *recordSorter) add(record []byte) error {
	s.held = append(s.held, record)
	s.bytes += len(record) + recordOverhead
	if s.bytes < s.limit {
		return nil
	}
	slices.SortFunc(s.held, bytes.Compare)
	err := s.spill(func(f func([]byte) error) error {
		for _, record := range s.held {
			if err := f(record); err != nil {
				return err
			}
		}
		return nil
	})
	s.held, s.bytes = nil, 0
	if err != nil || len(s.runs) < maxRuns {
		return err
	}
	merged := s.runs
	s.runs = nil
	if err := s.spill(func(f func([]byte) error) error { return merge(merged, f) }); err != nil {
		return err
	}
	for _, name := range merged {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

// spill writes the records that each yields to a new run.
func (s *recordSorter) spill(each func(func([]byte) error) error) (err error) {
	if s.dir == "" {
		if s.dir, err = os.MkdirTemp("", "beamagents-sort-*"); err != nil {
			return err
		}
	}
	file, err := os.Create(filepath.Join(s.dir, strconv.Itoa(s.count)))
	if err != nil {
		return err
	}
	s.count++
	s.runs = append(s.runs, file.Name())
	w := bufio.NewWriterSize(file, 64<<10)
	err = each(func(record []byte) error {
		_, err := w.Write(binary.AppendUvarint(w.AvailableBuffer(), uint64(len(record))))
		if err == nil {
			_, err = w.Write(record)
		}
		return err
	})
	return errors.Join(err, w.Flush(), file.Close())
}

// each calls f with the records in the order of their bytes. f must not keep them.
func (s *recordSorter) each(f func(record []byte) error) error {
	slices.SortFunc(s.held, bytes.Compare)
	if len(s.runs) == 0 {
		for _, record := range s.held {
			if err := f(record); err != nil {
				return err
			}
		}
		return nil
	}
	return merge(s.runs, f, s.held...)
}

// close removes the runs.
func (s *recordSorter) close() error {
	if s.dir == "" {
		return nil
	}
	return os.RemoveAll(s.dir)
}

// run is the unread part of a sorted run. record is its first record.
type run struct {
	record []byte
	next   func() (record []byte, err error) // io.EOF at the end
}

// runHeap is a heap of runs, ordered by their first records.
type runHeap []*run

func (h runHeap) Len() int           { return len(h) }
func (h runHeap) Less(i, j int) bool { return bytes.Compare(h[i].record, h[j].record) < 0 }
func (h runHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *runHeap) Push(x any)        { *h = append(*h, x.(*run)) }
func (h *runHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// merge calls f, in order, with the records of the runs and those in held.
func merge(names []string, f func([]byte) error, held ...[]byte) error {
	var runs runHeap
	add := func(r *run) (err error) {
		if r.record, err = r.next(); errors.Is(err, io.EOF) {
			return nil
		}
		runs = append(runs, r)
		return err
	}
	if err := add(&run{next: func() ([]byte, error) {
		if len(held) == 0 {
			return nil, io.EOF
		}
		first := held[0]
		held = held[1:]
		return first, nil
	}}); err != nil {
		return err
	}
	for _, name := range names {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // the file is only read
		if err := add(&run{next: recordReader(file)}); err != nil {
			return err
		}
	}
	heap.Init(&runs)
	for len(runs) > 0 {
		least := runs[0]
		if err := f(least.record); err != nil {
			return err
		}
		record, err := least.next()
		switch {
		case errors.Is(err, io.EOF):
			heap.Pop(&runs)
		case err != nil:
			return err
		default:
			least.record = record
			heap.Fix(&runs, 0)
		}
	}
	return nil
}

// recordReader returns a function that reads the records of a run. A record is valid until the
// next call.
func recordReader(file io.Reader) (next func() ([]byte, error)) {
	r := bufio.NewReaderSize(file, 64<<10)
	var record []byte
	return func() ([]byte, error) {
		size, err := binary.ReadUvarint(r)
		if err != nil {
			return nil, err
		}
		record = slices.Grow(record[:0], int(size))[:size]
		if _, err = io.ReadFull(r, record); errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // the run is cut short
		}
		return record, err
	}
}
