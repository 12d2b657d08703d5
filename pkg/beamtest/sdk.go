package beamtest

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/coder"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/exec"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"google.golang.org/protobuf/encoding/protowire"
)

// sdkProvider returns the provider that a worker gives to a DoFn, over the bytes of the kit.
func (o *overlay) sdkProvider() (state.Provider, error) {
	coders := map[string]*coder.Coder{}
	keyCoders := map[string]*coder.Coder{}
	combineFns := map[string]*graph.CombineFn{}
	for id, c := range o.kit.cells {
		coders[id] = c.coder
		if c.keyCoder != nil {
			keyCoders[id] = c.keyCoder
		}
		if c.combineFn != nil {
			combineFns[id] = c.combineFn
		}
	}
	element := coder.NewW(coder.NewKV([]*coder.Coder{coder.NewBytes(), coder.NewBytes()}), windowCoder(o.scope.window))
	adapter := exec.NewUserStateAdapter(exec.StreamID{}, element, coders, keyCoders, combineFns)
	key := &exec.MainInput{Key: exec.FullValue{Elm: []byte(o.scope.key)}}
	sp, err := adapter.NewStateProvider(context.Background(), (*stateReader)(o), o.scope.window, key)
	if err != nil {
		return nil, err
	}
	return &sp, nil
}

// stateReader is the worker's side of the state API. It takes key and window from the overlay.
type stateReader overlay

var errSideInput = errors.New("beamtest: the kit has no side inputs")

func (s *stateReader) OpenIterableSideInput(context.Context, exec.StreamID, string, []byte) (io.ReadCloser, error) {
	return nil, errSideInput
}

func (s *stateReader) OpenMultiMapSideInput(context.Context, exec.StreamID, string, []byte, []byte) (io.ReadCloser, error) {
	return nil, errSideInput
}

func (s *stateReader) OpenIterable(context.Context, exec.StreamID, []byte) (io.ReadCloser, error) {
	return nil, errSideInput
}

func (s *stateReader) GetSideInputCache() exec.SideCache { return nil }

func (s *stateReader) OpenBagUserStateReader(_ context.Context, _ exec.StreamID, id string, _, _ []byte) (io.ReadCloser, error) {
	return s.reader(func(o *overlay) [][]byte { return o.read(addr{cell: id}) }), nil
}

func (s *stateReader) OpenBagUserStateAppender(_ context.Context, _ exec.StreamID, id string, _, _ []byte) (io.Writer, error) {
	return &appender{(*overlay)(s), addr{cell: id}}, nil
}

func (s *stateReader) OpenBagUserStateClearer(_ context.Context, _ exec.StreamID, id string, _, _ []byte) (io.Writer, error) {
	return s.clearer(func(o *overlay) { o.write(addr{cell: id}, nil) }), nil
}

func entry(id string, mapKey []byte) addr { return addr{cell: id, mapKey: string(mapKey), entry: true} }

func (s *stateReader) OpenMultimapUserStateReader(_ context.Context, _ exec.StreamID, id string, _, _, mapKey []byte) (io.ReadCloser, error) {
	return s.reader(func(o *overlay) [][]byte { return o.read(entry(id, mapKey)) }), nil
}

func (s *stateReader) OpenMultimapUserStateAppender(_ context.Context, _ exec.StreamID, id string, _, _, mapKey []byte) (io.Writer, error) {
	return &appender{(*overlay)(s), entry(id, mapKey)}, nil
}

func (s *stateReader) OpenMultimapUserStateClearer(_ context.Context, _ exec.StreamID, id string, _, _, mapKey []byte) (io.Writer, error) {
	return s.clearer(func(o *overlay) { o.write(entry(id, mapKey), nil) }), nil
}

func (s *stateReader) OpenMultimapKeysUserStateReader(_ context.Context, _ exec.StreamID, id string, _, _ []byte) (io.ReadCloser, error) {
	return s.reader(func(o *overlay) (chunks [][]byte) {
		for _, key := range o.entries(id) {
			chunks = append(chunks, []byte(key))
		}
		return chunks
	}), nil
}

func (s *stateReader) OpenMultimapKeysUserStateClearer(_ context.Context, _ exec.StreamID, id string, _, _ []byte) (io.Writer, error) {
	return s.clearer(func(o *overlay) {
		for _, key := range o.entries(id) {
			o.write(entry(id, []byte(key)), nil)
		}
	}), nil
}

// The chunks of an ordered list are its items: a varint to sort by, and the value.
func sortKey(chunk []byte) int64 {
	key, _ := protowire.ConsumeVarint(chunk)
	return int64(key)
}

func (s *stateReader) OpenOrderedListUserStateReader(_ context.Context, _ exec.StreamID, id string, _, _ []byte, start, end int64) (io.ReadCloser, error) {
	return s.reader(func(o *overlay) (chunks [][]byte) {
		for _, chunk := range o.read(addr{cell: id}) {
			if key := sortKey(chunk); start <= key && key < end {
				chunks = append(chunks, chunk)
			}
		}
		slices.SortStableFunc(chunks, func(a, b []byte) int { return cmp.Compare(sortKey(a), sortKey(b)) })
		return chunks
	}), nil
}

func (s *stateReader) OpenOrderedListUserStateAppender(_ context.Context, _ exec.StreamID, id string, _, _ []byte) (io.Writer, error) {
	return &appender{(*overlay)(s), addr{cell: id}}, nil
}

func (s *stateReader) OpenOrderedListUserStateClearer(_ context.Context, _ exec.StreamID, id string, _, _ []byte, start, end int64) (io.Writer, error) {
	return s.clearer(func(o *overlay) {
		o.write(addr{cell: id}, slices.DeleteFunc(slices.Clone(o.read(addr{cell: id})), func(chunk []byte) bool {
			key := sortKey(chunk)
			return start <= key && key < end
		}))
	}), nil
}

func (s *stateReader) reader(read func(*overlay) [][]byte) io.ReadCloser {
	return &lazyReader{overlay: (*overlay)(s), read: read}
}

func (s *stateReader) clearer(empty func(*overlay)) io.Writer {
	return &clearWriter{overlay: (*overlay)(s), empty: empty}
}

// lazyReader makes its RPC once, at its first Read. Like the reader of a worker, it is closed if
// the RPC fails.
type lazyReader struct {
	overlay *overlay
	read    func(*overlay) [][]byte
	data    *chunkReader
	closed  bool
}

func (r *lazyReader) Read(b []byte) (int, error) {
	if r.closed {
		return 0, errors.New("beamtest: read of a cell after its RPC failed")
	}
	if r.data == nil {
		o := r.overlay
		if err := o.rpc(&o.kit.rpcs.Reads, func() { r.data = &chunkReader{chunks: r.read(o)} }); err != nil {
			r.closed = true
			return 0, err
		}
	}
	return r.data.Read(b)
}

func (r *lazyReader) Close() error { return nil }

// clearWriter clears the cell at each Write.
type clearWriter struct {
	overlay *overlay
	empty   func(*overlay)
}

func (w *clearWriter) Write(b []byte) (int, error) {
	o := w.overlay
	if err := o.rpc(&o.kit.rpcs.Clears, func() { w.empty(o) }); err != nil {
		return 0, err
	}
	return len(b), nil
}
