package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/beamagents/beamagents-go/pkg/internal/jsontoken"
)

// drawAny draws a value that [ValueOf] accepts, nested at most depth levels.
func drawAny(depth int) *rapid.Generator[any] {
	scalar := rapid.OneOf(
		rapid.Just[any](nil),
		rapid.Bool().AsAny(), rapid.String().AsAny(), rapid.Int64().AsAny(), rapid.Float64().AsAny(),
		rapid.Uint64Min(1<<63).AsAny(),
	)
	if depth == 0 {
		return scalar
	}
	return rapid.OneOf(scalar,
		rapid.SliceOfN(rapid.Deferred(func() *rapid.Generator[any] { return drawAny(depth - 1) }), 0, 4).AsAny(),
		rapid.MapOfN(rapid.String(), rapid.Deferred(func() *rapid.Generator[any] { return drawAny(depth - 1) }), 0, 4).AsAny(),
	)
}

// scribble writes v as another program might: in any order, with white space and escapes, and
// with members that later members of the same name replace.
func scribble(r *rand.Rand, v any) string {
	space := func() string { return strings.Repeat(" ", r.IntN(2)) + strings.Repeat("\n", r.IntN(2)) }
	str := func(s string) string {
		var b strings.Builder
		for _, c := range s {
			switch {
			case c < ' ' || c == '"' || c == '\\' || c < 0x10000 && r.IntN(4) == 0:
				fmt.Fprintf(&b, [2]string{`\u%04x`, `\u%04X`}[r.IntN(2)], c)
			default:
				b.WriteRune(c)
			}
		}
		return `"` + b.String() + `"`
	}
	switch v := v.(type) {
	case string:
		return space() + str(v) + space()
	case float64:
		text, _ := json.Marshal(v)
		if !bytes.ContainsAny(text, ".e") {
			return string(text) + [2]string{".00", "e+0"}[r.IntN(2)]
		}
		return string(text)
	case []any:
		var items []string
		for _, item := range v {
			items = append(items, scribble(r, item))
		}
		return "[" + space() + strings.Join(items, space()+","+space()) + "]"
	case map[string]any:
		var members []string
		names := slices.Sorted(maps.Keys(v))
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, name := range names {
			item := v[name]
			members = append(members, space()+str(name)+space()+":"+scribble(r, item))
			if r.IntN(3) == 0 {
				members = append([]string{str(name) + ":[{}]"}, members...)
			}
		}
		return "{" + strings.Join(members, ",") + space() + "}"
	default:
		text, _ := json.Marshal(v)
		return space() + string(text) + space()
	}
}

func TestValueProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawAny(3).Draw(t, "value")
		v, err := ValueOf(in)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(in, v.Any(), equalMaps); diff != "" {
			t.Fatalf("Any (-want +got):\n%s", diff)
		}
		text := scribble(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)), in)
		other, err := ParseValue([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if !other.Equal(v) || other.JSON() != v.JSON() {
			t.Fatalf("%s\nis written %s\nwant       %s", text, other.JSON(), v.JSON())
		}
	})
}

func TestEnvelopeProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		payload, err := ValueOf(drawAny(3).Draw(t, "payload"))
		if err != nil {
			t.Fatal(err)
		}
		metadata, err := ValueOf(drawAny(2).Draw(t, "metadata"))
		if err != nil {
			t.Fatal(err)
		}
		env := NewEnvelope(rapid.OneOf(rapid.String(), rapid.SampledFrom(catalogue.tags)).Draw(t, "type"), payload).WithMetadata(metadata)
		text, err := env.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		back, err := DecodeEnvelope(text)
		if err != nil || !back.Equal(env) || !cmp.Equal(back.Project(), env.Project()) {
			t.Fatalf("%s is read as %v (%v)", text, back, err)
		}
	})
}

// equalMaps treats an empty map or list as equal to nil.
var equalMaps = cmp.Transformer("json", func(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
})

// drawInto sets v, which has that shape, to a drawn value.
func drawInto(t *rapid.T, v reflect.Value, sh *shape, label string) {
	switch sh.kind {
	case stringShape:
		v.SetString(rapid.String().Draw(t, label))
	case wordShape:
		v.SetString(rapid.SampledFrom(sh.words).Draw(t, label))
	case boolShape:
		v.SetBool(rapid.Bool().Draw(t, label))
	case intShape:
		i := rapid.Int64().Draw(t, label)
		if v.Kind() == reflect.Int32 {
			i = int64(int32(i))
		}
		v.SetInt(i)
	case uintShape:
		u := rapid.Uint64().Draw(t, label)
		v.SetUint(u >> (64 - v.Type().Bits()))
	case floatShape:
		if v.Kind() == reflect.Float32 {
			v.SetFloat(float64(rapid.Float32().Draw(t, label)))
		} else {
			v.SetFloat(rapid.Float64().Draw(t, label))
		}
	case anyShape:
		value, err := ValueOf(drawAny(2).Draw(t, label))
		if err != nil {
			t.Fatal(err)
		}
		v.Set(reflect.ValueOf(value))
	case listShape:
		for i := range rapid.IntRange(0, 3).Draw(t, label) {
			v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
			drawInto(t, v.Index(i), sh.elem, label)
		}
	case objectShape:
		drawObject(t, v, sh.object)
	case unionShape:
		i := rapid.IntRange(0, len(sh.union.types)-1).Draw(t, label)
		member := reflect.New(sh.union.types[i]).Elem()
		drawObject(t, member, sh.union.members[i])
		v.Set(member)
	}
}

func drawObject(t *rapid.T, v reflect.Value, o *object) {
	for i := range o.fields {
		f, fv := &o.fields[i], v.Field(i)
		if (f.pointer || f.shape.kind == unionShape) && rapid.Bool().Draw(t, f.name+" absent") {
			continue
		}
		if f.pointer {
			fv.Set(reflect.New(fv.Type().Elem()))
			fv = fv.Elem()
		}
		drawInto(t, fv, f.shape, f.name)
	}
}

// Any event is the same after it was written and read, in both forms. What is written is
// canonical.
func TestEventProperties(t *testing.T) {
	for i, name := range catalogue.tags {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				v := reflect.New(catalogue.types[i]).Elem()
				drawObject(t, v, catalogue.members[i])
				event := v.Interface().(Event)

				env, err := ToEnvelope(event)
				if err != nil {
					t.Fatal(err)
				}
				text, err := env.MarshalJSON()
				if err != nil || !json.Valid(text) {
					t.Fatalf("%s (%v)", text, err)
				}
				decoded, err := DecodeEnvelope(text)
				if err != nil || !decoded.Equal(env) || decoded.Payload.deep != env.Payload.deep {
					t.Fatalf("%s is not itself: %v", text, err)
				}
				if slow := rewritten(decoded.Payload.text); slow != env.Payload.text {
					t.Fatalf("payload %s\nis not canonical, which is %s", env.Payload.text, slow)
				}
				back, err := FromEnvelope(decoded)
				if diff := cmp.Diff(event, back); err != nil || diff != "" {
					t.Fatalf("from its envelope (%v, -want +got):\n%s", err, diff)
				}
				p, err := ProjectEvent(event)
				if diff := cmp.Diff(decoded.Project(), p); err != nil || diff != "" {
					t.Fatalf("projection (%v):\n%s", err, diff)
				}

				record := RunRecord{rapid.Uint64().Draw(t, "sequence"), rapid.Uint64().Draw(t, "time"), event}
				text, err = record.AppendJSON(nil)
				if err != nil {
					t.Fatal(err)
				}
				again, err := DecodeRunRecord(text)
				if diff := cmp.Diff(record, again); err != nil || diff != "" {
					t.Fatalf("from its record (%v, -want +got):\n%s", err, diff)
				}
			})
		})
	}
}

// rewritten is the canonical form of accepted text, without the shortcut for text that is
// canonical already.
func rewritten(text string) string {
	v := accepted(text)
	var o output
	new(canonicalizer).rewrite(v, &o)
	return string(o.text)
}

// A number that plainNumber accepts is exactly what would be written.
func TestPlainNumbersAreWrittenAsTheyAre(t *testing.T) {
	literal := rapid.StringMatching(`-?(0|[1-9][0-9]{0,19})(\.0{0,6}[0-9]{1,17})?([eE][-+]?[0-9]{1,2})?`)
	plain := 0
	rapid.Check(t, func(t *rapid.T) {
		lit := literal.Draw(t, "literal")
		if n, _ := jsontoken.ScanNumber(lit); !plainNumber(lit, n) {
			return
		}
		plain++
		want := lit
		if n, float := parseNumber(lit); float {
			want = string(appendFloat(nil, n.float, 64))
		}
		if lit != want {
			t.Fatalf("%s is plain and written %s", lit, want)
		}
	})
	if plain == 0 {
		t.Error("no number is plain")
	}
}
