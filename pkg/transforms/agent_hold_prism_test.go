package transforms

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/passert"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/teststream"

	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"

	"github.com/beamagents/beamagents-go/internal/prismtest"
)

func init() {
	register.Function2x2(oneKey)
	register.Function3x1(sayWindow)
}

func oneKey(_, value []byte) (string, string) { return "all", string(value) }

func sayWindow(w beam.Window, _ string, values func(*string) bool) string {
	var all []string
	for v := ""; values(&v); {
		all = append(all, v)
	}
	slices.Sort(all)
	return fmt.Sprintf("until %d: %s", w.MaxTimestamp().Milliseconds()+1, strings.Join(all, ", "))
}

// This is what a windowed consumer gets of a timeout when the watermark passes the deadline in one
// step. Prism fires all due timers, also those that are only set in this step, before it advances
// the watermark. So the output is not late there, with or without HoldWatermark. On a runner that
// does otherwise, such as Flink, the timeout is in time only with HoldWatermark. TestAgentWakeHolds
// shows what each timer asks for.
func TestPrismHoldWatermark(t *testing.T) {
	for _, hold := range []bool{false, true} {
		for _, leap := range []string{"before the timers are set", "after the timers are set"} {
			for _, concurrency := range forms {
				t.Run(fmt.Sprintf("hold %v/%s/%d", hold, leap, concurrency), func(t *testing.T) {
					ts := teststream.NewConfig()
					add := func(env *pb.AgentEnvelope) {
						if err := ts.AddElements(env.GetEventTimeMs(), encoded(t, env)); err != nil {
							t.Fatal(err)
						}
					}
					add(eventFor("a", 1000, script{Ask: []string{"t"}, Then: "suspend", Timeout: 5000}))
					add(eventFor("b", 1500, script{Count: "n"}))
					if strings.HasPrefix(leap, "after") {
						ts.AdvanceWatermark(2000)
					}
					add(eventFor("d", 6500, script{Count: "n"}))
					ts.AdvanceWatermark(30_000)
					add(eventFor("e", 6600, script{Count: "n"})) // late, and after the window
					add(eventFor("c", 30_500, script{Count: "n"}))
					ts.AdvanceWatermark(40_000)
					ts.AdvanceWatermarkToInfinity()
					p, s := beam.NewPipelineWithRoot()
					agents := RunAgent(s, AgentParams{Name: "test", Agent: new(scriptedAgent), Concurrency: concurrency, HoldWatermark: hold},
						KeyByEntity(s, beam.ParDo(s, parseRaw, teststream.Create(s, ts))))
					windowed := beam.WindowInto(s, window.NewFixedWindows(time.Second), beam.ParDo(s, oneKey, agents.Outputs))
					seen := beam.ParDo(s, sayWindow, beam.GroupByKey(s, windowed))
					passert.EqualsList(s, beam.WindowInto(s, window.NewGlobalWindows(), seen),
						[]string{"until 2000: n 1 at 1500", "until 7000: denied, n 1 at 6500", "until 31000: n 1 at 30500"})
					passert.Empty(s, agents.Errors)
					prismtest.Run(t, p)
				})
			}
		}
	}
}
