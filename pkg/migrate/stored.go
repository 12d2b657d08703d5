package migrate

import (
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// Current is the version of this library's stored messages. To raise it: freeze
// golden/v<Current>, raise it, and add to stored a step for each message of Versioned.
const Current uint32 = 1

var stored = New(Current)

// Stored returns the schema of this library's stored messages, which [Versioned] lists.
func Stored() *Schema { return stored }

// Versioned returns a nil pointer of each stored message whose shape may change with the version.
// StateSnapshot is not among them: it has a stamp, but is never stored. Its parts are exported as
// stored, each with its own stamp.
func Versioned() []Message {
	return []Message{
		(*pb.MemoryBlob)(nil),
		(*pb.Continuation)(nil),
		(*pb.LlmCacheBlob)(nil),
		(*runtimepb.KeyControl)(nil),
	}
}
