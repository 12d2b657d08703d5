package main

import (
	"errors"

	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"google.golang.org/protobuf/proto"

	supportpb "github.com/beamagents/beamagents-go/examples/memory/proto/support/v1"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// errNoCustomer has its own words: those of protobuf differ from binary to binary.
var errNoCustomer = errors.New("stored holds no Customer")

// leave stands for a previous build of the job. On a runner that can update a job its
// state is there when the new build starts; the embedded runner starts empty. So an event
// holds the bytes, and they go into the cell as that build put them there: through the
// coder, which has not changed, and past this build's cell, which writes version 2 alone.
//
// A job of your own has no such step.
func leave(sp beamstate.Provider, env *pb.AgentEnvelope, stored []byte, errs func(*pb.ActivationErrorRecord)) error {
	old := new(supportpb.Customer)
	if proto.Unmarshal(stored, old) != nil {
		return deadLetter(env, deadletter.FunctionError, deadletter.Failed, errNoCustomer, errs)
	}
	if err := customers.Check(old); err != nil { // it would fail every bundle of its key
		return deadLetter(env, deadletter.FunctionError, deadletter.Failed, err, errs)
	}
	cell := beamstate.MakeValueState[*supportpb.Customer](customerCell)
	if _, there, err := cell.Read(sp); err != nil || there {
		return err // delivered twice, or late: what is there is newer
	}
	return cell.Write(sp, old)
}
