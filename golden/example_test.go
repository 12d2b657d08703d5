package golden_test

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/golden"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// A decoder under test must find in Bytes what Value says.
func ExampleBlob_Value() {
	blob, err := golden.Lookup("v1/agent_envelope_event_empty")
	if err != nil {
		fmt.Println(err)
		return
	}
	want, err := blob.Value()
	if err != nil {
		fmt.Println(err)
		return
	}
	got := &pb.AgentEnvelope{}
	if err := proto.Unmarshal(blob.Bytes, got); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s %x %v\n", blob.Message, blob.Bytes, proto.Equal(got, want))
	// Output: beam_agents.v1.AgentEnvelope 1a00 true
}
