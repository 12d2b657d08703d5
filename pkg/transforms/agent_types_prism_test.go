package transforms

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/passert"

	"github.com/beamagents/beamagents-go/internal/prismtest"
	"github.com/beamagents/beamagents-go/pkg/agent"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// openAgent has fields of types for which Beam has no schema, and its type contains itself. It can
// be an agent, because an agent is not an element of a PCollection.
type openAgent struct {
	Any    any
	Labels map[string]any
	Next   *openAgent
	After  time.Duration

	Client *http.Client `json:"-"`
	Hook   func()       `json:"-"`
	Done   chan int     `json:"-"`
	mu     sync.Mutex
}

func init() { RegisterAgent[*openAgent]() }

func (a *openAgent) Setup(context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.Client, a.Hook, a.Done = new(http.Client), func() {}, make(chan int)
	return nil
}

func (a *openAgent) Run(_ context.Context, act *agent.Activation) (agent.Outcome, error) {
	if a.Client == nil || a.Hook == nil || a.Done == nil {
		return agent.Outcome{}, errors.New("not set up")
	}
	return agent.Done(), act.Emit(fmt.Appendf(nil, "%v %v %v %v", a.Any, a.Labels, a.Next.Any, a.After))
}

// Every struct can be an agent, if its JSON form loses nothing.
func TestPrismFieldsOfAgents(t *testing.T) {
	p, s := beam.NewPipelineWithRoot()
	agents := RunAgent(s, AgentParams{Name: "test", Agent: &openAgent{
		Any: "x", Labels: map[string]any{"a": 1.5}, Next: &openAgent{Any: "y"}, After: time.Minute,
	}}, KeyByEntity(s, beam.ParDo(s, parseText, beam.Create(s, string(encoded(t, eventFor("a", 1000, script{})))))))
	passert.EqualsList(s, spoken(s, agents), []string{"a output@1000 x map[a:1.5] y 1m0s"})
	prismtest.Run(t, p)
}

// Types that are declared within functions may share a name. The worker knows only the registered
// one.
func TestRunAgentRefusesAnotherTypeOfTheName(t *testing.T) {
	type lossyAgent struct{ scriptedAgent }
	_, s := beam.NewPipelineWithRoot()
	_, err := TryRunAgent(s, AgentParams{Name: "a", Agent: new(lossyAgent)}, KeyByEntity(s, beam.Create(s, new(pb.AgentEnvelope))))
	if want := "another type of the name " + reflect.TypeFor[lossyAgent]().PkgPath() + ".lossyAgent is registered"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}
