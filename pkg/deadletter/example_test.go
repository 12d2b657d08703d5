package deadletter_test

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/deadletter"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// At night: a message of an errors topic. Why did it fail, and how is it sent again?
func ExampleRead() {
	message := messageOfAnErrorsTopic()

	env := new(pb.AgentEnvelope)
	if err := proto.Unmarshal(message, env); err != nil {
		panic(err)
	}
	rec, err := deadletter.Unwrap(env)
	if err != nil {
		panic(err)
	}
	letter, err := deadletter.Read(rec)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s: %s, %s: %s\n", letter.EntityKey, letter.Reason, letter.Code, letter.Error)
	switch letter.InputKind {
	case deadletter.BytesInput, deadletter.EnvelopeInput:
		fmt.Printf("send these %d bytes again: %x\n", len(letter.Input), letter.Input)
	default:
		fmt.Println("nothing to send again")
	}
	// Output:
	// order-7: function_error, error: no price for item 12
	// send these 22 bytes again: 0a076f726465722d3710e8071a086974656d2d313200
}

func messageOfAnErrorsTopic() []byte {
	input, err := proto.Marshal(&pb.AgentEnvelope{
		EntityKey: []byte("order-7"), EventTimeMs: 1000,
		Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: []byte("item-12\x00")},
	})
	if err != nil {
		panic(err)
	}
	rec, err := deadletter.Letter{
		Reason: deadletter.FunctionError, Code: deadletter.Failed, Error: "no price for item 12",
		EntityKey: []byte("order-7"), EventTimeMS: 1000,
		InputKind: deadletter.EnvelopeInput, Input: input,
	}.Record()
	if err != nil {
		panic(err)
	}
	env, err := deadletter.Wrap(rec)
	if err != nil {
		panic(err)
	}
	message, err := proto.Marshal(env)
	if err != nil {
		panic(err)
	}
	return message
}
