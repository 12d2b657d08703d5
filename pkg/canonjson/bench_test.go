package canonjson_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/beamagents/beamagents-go/pkg/canonjson"
)

// sample is JSON of about 10 KiB as a model call has it, with members unsorted.
func sample() []byte {
	var b strings.Builder
	b.WriteString(`{"model": "m", "messages": [`)
	for i := 0; b.Len() < 9<<10; i++ {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, `{"role": "user", "content": "Please look at order %d.\nIt came \"late\", said Zoë.", `+
			`"meta": {"weight": %d.5, "id": %d, "flags": [true, false, null]}}`, i, i, i*1000003)
	}
	b.WriteString(`], "params": {"temperature": 0.2, "max_tokens": 1024}}`)
	return []byte(b.String())
}

// BenchmarkCanonicalize compares Canonicalize of 10 KiB with json.Compact of the same text:
// a usual one, and two that are slow for Canonicalize but not for Compact. The metric
// x_Compact is the time of Canonicalize divided by that of Compact in the same run.
func BenchmarkCanonicalize(b *testing.B) {
	var floats, members []string
	for i := range 600 {
		floats = append(floats, fmt.Sprintf("%.17g", float64(i)*1.234567891))
		members = append(members, fmt.Sprintf(`"member%d":%d`, i*7919%601, i))
	}
	for name, text := range map[string][]byte{
		"usual":   sample(),
		"floats":  []byte("[" + strings.Join(floats, ",") + "]"),
		"members": []byte("{" + strings.Join(members, ",") + "}"),
	} {
		var compact float64
		b.Run(name+"/encoding_json_Compact", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			var dst bytes.Buffer
			dst.Grow(2 * len(text))
			for b.Loop() {
				dst.Reset()
				if err := json.Compact(&dst, text); err != nil {
					b.Fatal(err)
				}
			}
			compact = perOp(b)
		})
		b.Run(name+"/canonjson", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			dst := make([]byte, 0, 2*len(text))
			for b.Loop() {
				if _, err := canonjson.Canonicalize(dst, text); err != nil {
					b.Fatal(err)
				}
			}
			if compact > 0 { // else it was not chosen
				b.ReportMetric(perOp(b)/compact, "x_Compact")
			}
		})
	}
}

// perOp returns the nanoseconds of one operation.
func perOp(b *testing.B) float64 { return float64(b.Elapsed().Nanoseconds()) / float64(b.N) }

func BenchmarkWrite(b *testing.B) {
	var v any
	if err := json.Unmarshal(sample(), &v); err != nil {
		b.Fatal(err)
	}
	sum := sha256.New()
	b.ReportAllocs()
	for b.Loop() {
		sum.Reset()
		if err := canonjson.Write(sum, v); err != nil {
			b.Fatal(err)
		}
	}
}
