package graph

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx"
	v1pb "github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx/v1"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/util/protox"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/compat"
)

func byName(a, b compat.Transform) int { return cmp.Compare(a.Name, b.Name) }

// reader resolves the ids of a pipeline's components.
type reader struct {
	all *pipepb.Components
	// producer has the transform and the tag that a PCollection comes from, by its id.
	producer map[string]string
}

func newReader(all *pipepb.Components) reader {
	r := reader{all: all, producer: map[string]string{}}
	for _, t := range all.GetTransforms() {
		if len(t.GetSubtransforms()) > 0 {
			continue // its outputs belong to a part of it
		}
		for tag, id := range t.GetOutputs() {
			r.producer[id] = t.GetUniqueName() + "[" + tag + "]"
		}
	}
	return r
}

func (r reader) transform(id string, t *pipepb.PTransform) (compat.Transform, error) {
	out := compat.Transform{Name: t.GetUniqueName(), Kind: t.GetSpec().GetUrn()}
	sides := map[string]*pipepb.SideInput{}
	switch out.Kind {
	case graphx.URNParDo:
		var payload pipepb.ParDoPayload
		if err := proto.Unmarshal(t.GetSpec().GetPayload(), &payload); err != nil {
			return out, err
		}
		if err := r.parDo(&out, &payload); err != nil {
			return out, err
		}
		sides = payload.GetSideInputs()
		if len(out.State) > 0 || len(out.Timers) > 0 || len(sides) > 0 || out.Restriction != nil {
			out.FlinkOperator = r.all.GetPcollections()[t.GetInputs()["i0"]].GetUniqueName()
		}
		if len(out.Timers) > 0 || len(sides) > 0 {
			out.FlinkTransform = id
		}
	case graphx.URNCombinePerKey:
		var payload pipepb.CombinePayload
		if err := proto.Unmarshal(t.GetSpec().GetPayload(), &payload); err != nil {
			return out, err
		}
		var err error
		if out.Accumulator, err = r.coderIfAny(payload.GetAccumulatorCoderId()); err != nil {
			return out, err
		}
		if out.Fn, err = dofn(payload.GetCombineFn()); err != nil {
			return out, err
		}
	}
	if len(t.GetSubtransforms()) > 0 {
		return out, nil // its parts have the inputs and outputs, with stable tags
	}
	for _, tag := range tags(t.GetInputs()) {
		id := t.GetInputs()[tag]
		c, err := r.collection(tag, id)
		if err != nil {
			return out, err
		}
		c.From = r.producer[id]
		if side, ok := sides[tag]; ok {
			c.Access = side.GetAccessPattern().GetUrn()
			out.SideInputs = append(out.SideInputs, c)
		} else {
			out.Inputs = append(out.Inputs, c)
		}
	}
	for _, tag := range tags(t.GetOutputs()) {
		c, err := r.collection(tag, t.GetOutputs()[tag])
		if err != nil {
			return out, err
		}
		out.Outputs = append(out.Outputs, c)
	}
	return out, nil
}

func (r reader) parDo(out *compat.Transform, payload *pipepb.ParDoPayload) (err error) {
	if out.Fn, err = dofn(payload.GetDoFn()); err != nil {
		return err
	}
	if out.Restriction, err = r.coderIfAny(payload.GetRestrictionCoderId()); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(payload.GetStateSpecs())) {
		s, err := r.state(id, payload.GetStateSpecs()[id])
		if err != nil {
			return fmt.Errorf("state %s: %w", id, err)
		}
		out.State = append(out.State, s)
	}
	for _, family := range slices.Sorted(maps.Keys(payload.GetTimerFamilySpecs())) {
		spec := payload.GetTimerFamilySpecs()[family]
		c, err := r.coder(spec.GetTimerFamilyCoderId())
		if err != nil {
			return fmt.Errorf("timer family %s: %w", family, err)
		}
		out.Timers = append(out.Timers, compat.Timer{Family: family, TimeDomain: spec.GetTimeDomain().String(), Coder: c})
	}
	return nil
}

func (r reader) state(id string, spec *pipepb.StateSpec) (compat.State, error) {
	s := compat.State{ID: id}
	var key, value string
	switch spec := spec.GetSpec().(type) {
	case *pipepb.StateSpec_ReadModifyWriteSpec:
		s.Kind, value = "value", spec.ReadModifyWriteSpec.GetCoderId()
	case *pipepb.StateSpec_BagSpec:
		s.Kind, value = "bag", spec.BagSpec.GetElementCoderId()
	case *pipepb.StateSpec_CombiningSpec:
		s.Kind, value = "combining", spec.CombiningSpec.GetAccumulatorCoderId()
		var err error
		if s.CombineFn, err = dofn(spec.CombiningSpec.GetCombineFn()); err != nil {
			return s, err
		}
	case *pipepb.StateSpec_MapSpec:
		s.Kind, key, value = "map", spec.MapSpec.GetKeyCoderId(), spec.MapSpec.GetValueCoderId()
	case *pipepb.StateSpec_SetSpec:
		s.Kind, key = "set", spec.SetSpec.GetElementCoderId()
	case *pipepb.StateSpec_OrderedListSpec:
		s.Kind, value = "ordered_list", spec.OrderedListSpec.GetElementCoderId()
	default:
		return s, fmt.Errorf("a kind of state that this version does not know: %T", spec)
	}
	var err error
	if s.Key, err = r.coderIfAny(key); err != nil {
		return s, err
	}
	s.Value, err = r.coderIfAny(value)
	return s, err
}

// tags returns the keys of m in order, i2 before i10.
func tags(m map[string]string) []string {
	number := func(tag string) int {
		n, err := strconv.Atoi(strings.TrimPrefix(tag, "i"))
		if err != nil {
			return -1
		}
		return n
	}
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(cmp.Compare(number(a), number(b)), cmp.Compare(a, b))
	})
}

func (r reader) collection(tag, id string) (compat.Collection, error) {
	col, ok := r.all.GetPcollections()[id]
	if !ok {
		return compat.Collection{}, fmt.Errorf("there is no PCollection %s", id)
	}
	c, err := r.coder(col.GetCoderId())
	if err != nil {
		return compat.Collection{}, err
	}
	w, err := windowing(r.all.GetWindowingStrategies()[col.GetWindowingStrategyId()])
	return compat.Collection{Tag: tag, Coder: c, Windowing: w}, err
}

func (r reader) coderIfAny(id string) (*compat.Coder, error) {
	if id == "" {
		return nil, nil //nolint:nilnil // no coder, which is valid
	}
	c, err := r.coder(id)
	return &c, err
}

func (r reader) coder(id string) (compat.Coder, error) {
	c, ok := r.all.GetCoders()[id]
	if !ok {
		return compat.Coder{}, fmt.Errorf("there is no coder %s", id)
	}
	out := compat.Coder{URN: c.GetSpec().GetUrn()}
	switch payload := c.GetSpec().GetPayload(); {
	case len(payload) == 0:
	case out.URN == "beam:go:coder:custom:v1":
		var custom v1pb.CustomCoder
		if err := protox.DecodeBase64(string(payload), &custom); err != nil {
			return out, fmt.Errorf("custom coder: %w", err)
		}
		out.Custom = &compat.CustomCoder{
			Name: custom.GetName(), Type: typeText(custom.GetType()),
			Encode: *userFn(custom.GetEnc()), Decode: *userFn(custom.GetDec()),
		}
	case out.URN == "beam:coder:row:v1":
		var schema pipepb.Schema
		if err := proto.Unmarshal(payload, &schema); err != nil {
			return out, fmt.Errorf("row coder: %w", err)
		}
		out.Fields = rowFields(&schema)
	default:
		out.Payload = base64.StdEncoding.EncodeToString(payload)
	}
	for _, component := range c.GetComponentCoderIds() {
		inner, err := r.coder(component)
		if err != nil {
			return out, err
		}
		out.Components = append(out.Components, inner)
	}
	return out, nil
}

// dofn reads the reference to user code. Code that the SDK itself puts into a pipeline, such as
// the parts of a CoGroupByKey, has a URN as its name.
func dofn(spec *pipepb.FunctionSpec) (*compat.Fn, error) {
	var payload v1pb.TransformPayload
	if err := protox.DecodeBase64(string(spec.GetPayload()), &payload); err != nil {
		return nil, fmt.Errorf("DoFn: %w", err)
	}
	fn := payload.GetEdge().GetFn()
	switch {
	case fn == nil:
		return &compat.Fn{Name: spec.GetUrn()}, nil
	case fn.GetDynfn() != nil:
		return &compat.Fn{Name: fn.GetDynfn().GetName() + " by " + fn.GetDynfn().GetGen(), Signature: typeText(fn.GetDynfn().GetType())}, nil
	case fn.GetFn() != nil:
		return userFn(fn.GetFn()), nil
	default:
		return &compat.Fn{Name: typeText(fn.GetType())}, nil
	}
}

func userFn(fn *v1pb.UserFn) *compat.Fn {
	return &compat.Fn{Name: fn.GetName(), Signature: typeText(fn.GetType())}
}
