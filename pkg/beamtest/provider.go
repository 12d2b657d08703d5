package beamtest

import (
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/funcx"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/coder"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/exec"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/util/reflectx"
)

// cell describes a state cell that the DoFn declares.
type cell struct {
	kind      state.TypeEnum
	coder     *coder.Coder
	keyCoder  *coder.Coder // the coder of the keys of a Map or Set
	combineFn *graph.CombineFn
	typ       reflect.Type // the type of a value or an item
	enc       exec.ElementEncoder
	dec       exec.ElementDecoder
}

func newCell(ps state.PipelineState) (*cell, error) {
	// The entries of a Set have no values, so use bools.
	c := &cell{kind: ps.StateType(), coder: coder.NewBool(), typ: ps.CoderType()}
	var err error
	if t := ps.CoderType(); t == nil && c.kind != state.TypeSet {
		return nil, errors.New("it has no coder: state of an interface type cannot be stored")
	} else if t != nil {
		if c.coder, err = coderOf(t); err != nil {
			return nil, err
		}
	}
	if t := ps.KeyCoderType(); t != nil {
		if c.keyCoder, err = coderOf(t); err != nil {
			return nil, err
		}
	}
	if combining, ok := ps.(state.CombiningPipelineState); ok {
		fn, err := graph.NewFn(combining.GetCombineFn())
		if err != nil {
			return nil, err
		}
		if c.combineFn, err = graph.AsCombineFn(fn); err != nil {
			return nil, err
		}
	}
	c.enc, c.dec = exec.MakeElementEncoder(c.coder), exec.MakeElementDecoder(c.coder)
	return c, nil
}

// coderOf returns the coder that Beam chooses for a type. Beam tells it only for a PCollection,
// so coderOf makes one.
func coderOf(t reflect.Type) (c *coder.Coder, err error) {
	defer func() {
		if p := recover(); p != nil { // Beam panics on a type that it cannot encode
			err = fmt.Errorf("no coder for %v: %v", t, p)
		}
	}()
	emits := reflect.FuncOf([]reflect.Type{reflect.TypeFor[[]byte](), reflect.FuncOf([]reflect.Type{t}, nil, false)}, nil, false)
	fn := reflect.MakeFunc(emits, func([]reflect.Value) []reflect.Value { return nil }).Interface()
	p, s := beam.NewPipelineWithRoot()
	if _, err := beam.TryParDo(s, fn, beam.Impulse(s)); err != nil {
		return nil, err
	}
	_, nodes, err := p.Build()
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		if n.Type().Type() == t && n.Coder != nil {
			// A coder that cannot be written into a pipeline could not be used there, so refuse
			// it here.
			_, err := graphx.NewCoderMarshaller().Add(n.Coder)
			return n.Coder, err
		}
	}
	return nil, fmt.Errorf("beam has no coder for %v", t)
}

// decodeAll decodes values up to the end of r.
func (c *cell) decodeAll(r io.Reader) (values []any, err error) {
	for {
		value, err := c.dec.Decode(r)
		if errors.Is(err, io.EOF) {
			return values, nil
		}
		if err != nil {
			return nil, err
		}
		values = append(values, value.Elm)
	}
}

// provider is a state.Provider for one call. Like the SDK's, it asks the runner once for the
// content of a cell, writes through, and lets the state types apply the writes since then.
type provider struct {
	overlay *overlay
	readers map[string]*lazyReader
	values  map[string]any
	bags    map[string][]any
	blind   map[string]int
	since   map[string][]state.Transaction
}

var errKind = errors.New("not a Value, Bag or Combining, which is all that the kit's own provider knows; set Kit.SDK")

func (p *provider) cell(id string) (*cell, error) {
	c, ok := p.overlay.kit.cells[id]
	switch {
	case !ok:
		return nil, fmt.Errorf("beamtest: the DoFn has no cell %q", id)
	case c.kind != state.TypeValue && c.kind != state.TypeBag && c.kind != state.TypeCombining:
		return nil, fmt.Errorf("beamtest: cell %s: %w", id, errKind)
	}
	return c, nil
}

func (p *provider) ReadValueState(id string) (any, []state.Transaction, error) {
	c, err := p.cell(id)
	if err != nil {
		return nil, nil, err
	}
	if value, ok := p.values[id]; ok {
		return value, p.since[id], nil
	}
	value, err := c.dec.Decode(p.reader(id))
	switch {
	case errors.Is(err, io.EOF):
		return nil, nil, nil // as in the SDK, which ignores later writes here
	case err != nil:
		return nil, nil, err
	}
	set(&p.values, id, value.Elm)
	return value.Elm, p.since[id], nil
}

// reader returns the reader of a cell in the call. There is only one: a second read continues
// where the first one stopped, even in the middle of a value.
func (p *provider) reader(id string) *lazyReader {
	r := p.readers[id]
	if r == nil {
		r = &lazyReader{overlay: p.overlay, read: func(o *overlay) [][]byte { return o.read(addr{cell: id}) }}
		set(&p.readers, id, r)
	}
	return r
}

func (p *provider) WriteValueState(t state.Transaction) error {
	if err := p.clear(t); err != nil {
		return err
	}
	if err := p.add(t); err != nil {
		return err
	}
	set(&p.since, t.Key, []state.Transaction{t})
	return nil
}

func (p *provider) ClearValueState(t state.Transaction) error {
	if err := p.clear(t); err != nil {
		return err
	}
	set(&p.since, t.Key, []state.Transaction{t})
	return nil
}

func (p *provider) ReadBagState(id string) ([]any, []state.Transaction, error) {
	c, err := p.cell(id)
	if err != nil {
		return nil, nil, err
	}
	items, ok := p.bags[id]
	if !ok {
		if items, err = c.decodeAll(p.reader(id)); err != nil {
			return nil, nil, err
		}
		set(&p.bags, id, items)
	}
	return items, p.since[id][p.blind[id]:], nil
}

func (p *provider) WriteBagState(t state.Transaction) error {
	if _, read := p.bags[t.Key]; !read {
		set(&p.blind, t.Key, p.blind[t.Key]+1)
	}
	if err := p.add(t); err != nil {
		return err
	}
	set(&p.since, t.Key, append(p.since[t.Key], t))
	return nil
}

func (p *provider) ClearBagState(t state.Transaction) error {
	if err := p.clear(t); err != nil {
		return err
	}
	set(&p.since, t.Key, []state.Transaction{t})
	set(&p.blind, t.Key, 1)
	return nil
}

func (p *provider) clear(t state.Transaction) error {
	if _, err := p.cell(t.Key); err != nil {
		return err
	}
	o := p.overlay
	return o.rpc(&o.kit.rpcs.Clears, func() { o.write(addr{cell: t.Key}, nil) })
}

func (p *provider) add(t state.Transaction) error {
	c, err := p.cell(t.Key)
	if err != nil {
		return err
	}
	return c.enc.Encode(&exec.FullValue{Elm: t.Val}, &appender{p.overlay, addr{cell: t.Key}})
}

func (p *provider) combineFn(id string) *graph.CombineFn { return p.overlay.kit.cells[id].combineFn }

// callable returns nil for a method that the CombineFn does not have.
func callable(f *funcx.Fn) reflectx.Func {
	if f == nil {
		return nil
	}
	return f.Fn
}

func (p *provider) CreateAccumulatorFn(id string) reflectx.Func {
	return callable(p.combineFn(id).CreateAccumulatorFn())
}

func (p *provider) AddInputFn(id string) reflectx.Func {
	return callable(p.combineFn(id).AddInputFn())
}

func (p *provider) MergeAccumulatorsFn(id string) reflectx.Func {
	return callable(p.combineFn(id).MergeAccumulatorsFn())
}

func (p *provider) ExtractOutputFn(id string) reflectx.Func {
	return callable(p.combineFn(id).ExtractOutputFn())
}

func (p *provider) ReadMapStateValue(string, any) (any, []state.Transaction, error) {
	return nil, nil, errKind
}

func (p *provider) ReadMapStateKeys(string) ([]any, []state.Transaction, error) {
	return nil, nil, errKind
}

func (p *provider) WriteMapState(state.Transaction) error { return errKind }

func (p *provider) ClearMapStateKey(state.Transaction) error { return errKind }

func (p *provider) ClearMapState(state.Transaction) error { return errKind }

func (p *provider) ReadOrderedListState(string) ([]any, []state.Transaction, error) {
	return nil, nil, errKind
}

func (p *provider) WriteOrderedListState(state.Transaction) error { return errKind }

func (p *provider) ClearOrderedListState(state.Transaction) error { return errKind }

// set sets an entry of a map and makes the map at first use, because most calls touch one cell.
func set[V any](m *map[string]V, id string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[id] = v
}

// appender writes to a cell. Each Write is an RPC.
type appender struct {
	overlay *overlay
	addr    addr
}

func (a *appender) Write(b []byte) (int, error) {
	o := a.overlay
	if err := o.rpc(&o.kit.rpcs.Appends, func() { o.append(a.addr, b) }); err != nil {
		return 0, err
	}
	return len(b), nil
}

type chunkWriter struct{ chunks [][]byte }

func (w *chunkWriter) Write(b []byte) (int, error) {
	w.chunks = append(w.chunks, append([]byte(nil), b...))
	return len(b), nil
}

// chunkReader reads chunks as one stream.
type chunkReader struct {
	chunks [][]byte
	off    int
}

func (r *chunkReader) Read(b []byte) (int, error) {
	for len(r.chunks) > 0 && r.off == len(r.chunks[0]) {
		r.chunks, r.off = r.chunks[1:], 0
	}
	if len(r.chunks) == 0 {
		return 0, io.EOF
	}
	n := copy(b, r.chunks[0][r.off:])
	r.off += n
	return n, nil
}
