package main

import (
	"errors"

	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"google.golang.org/protobuf/proto"

	supportpb "github.com/beamagents/beamagents-go/examples/memory/proto/support/v1"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// errNoCustomer has its own text, because the texts of protobuf differ from binary to binary.
var errNoCustomer = errors.New("stored holds no Customer")

// leave simulates a previous build of the job. On a runner that can update a job, the state of
// the previous build exists when the new build starts; the embedded runner starts empty. So an
// event holds the bytes, and leave writes them into the cell as that build did: with the same
// coder, but without this build's cell, which writes only version 2.
//
// Your own job does not need this.
func leave(sp beamstate.Provider, env *pb.AgentEnvelope, stored []byte, errs func(*pb.ActivationErrorRecord)) error {
	old := new(supportpb.Customer)
	if proto.Unmarshal(stored, old) != nil {
		return deadLetter(env, deadletter.FunctionError, deadletter.Failed, errNoCustomer, errs)
	}
	if err := customers.Check(old); err != nil { // it would fail every bundle of the key
		return deadLetter(env, deadletter.FunctionError, deadletter.Failed, err, errs)
	}
	cell := beamstate.MakeValueState[*supportpb.Customer](customerCell)
	if _, there, err := cell.Read(sp); err != nil || there {
		return err // delivered twice or late: the stored message is newer
	}
	return cell.Write(sp, old)
}
