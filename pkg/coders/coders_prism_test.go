package coders_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/passert"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/ptest"

	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"

	"github.com/beamagents/beamagents-go/internal/prismtest"
)

var _ = prism.Execute // registers the runner

func init() {
	register.Function1x2(keyByIntent)
	register.Function1x2(keyByEvent)
	register.Function2x1(countIntent)
	register.Function2x1(countEvent)
	register.Iter1[int]()
}

func TestMain(m *testing.M) {
	log.LogLevel = "warn"
	os.Exit(ptest.MainRetWithDefault(m, "prism"))
}

func keyByIntent(i int) (*pb.ToolIntent, int) {
	return &pb.ToolIntent{IntentId: fmt.Sprint(i % 3), EntityKey: []byte{byte(i % 3)}}, i
}

// keyByEvent builds its map in another order each time.
func keyByEvent(i int) (*pb.TraceEvent, int) {
	attributes := map[string]string{}
	for j := range 20 {
		attributes[fmt.Sprint((i+j)%20)] = "v"
	}
	return &pb.TraceEvent{Attributes: attributes, Seq: int64(i % 2)}, i
}

func countIntent(m *pb.ToolIntent, next func(*int) bool) string {
	return fmt.Sprintf("%s:%d", m.GetIntentId(), count(next))
}

func countEvent(m *pb.TraceEvent, next func(*int) bool) string {
	return fmt.Sprintf("%d:%d", m.GetSeq(), count(next))
}

func count(next func(*int) bool) (n int) {
	for i := 0; next(&i); {
		n++
	}
	return n
}

// A key coder that were not deterministic would split one key into several groups.
func TestMessagesAreGroupByKeyKeys(t *testing.T) {
	p, s := beam.NewPipelineWithRoot()
	numbers := make([]int, 60)
	for i := range numbers {
		numbers[i] = i
	}
	col := beam.CreateList(s, numbers)
	byIntent := beam.GroupByKey(s, beam.ParDo(s, keyByIntent, col))
	passert.Equals(s, beam.ParDo(s, countIntent, byIntent), "0:20", "1:20", "2:20")
	byEvent := beam.GroupByKey(s, beam.ParDo(s, keyByEvent, col))
	passert.Equals(s, beam.ParDo(s, countEvent, byEvent), "0:30", "1:30")
	prismtest.Run(t, p)
}
