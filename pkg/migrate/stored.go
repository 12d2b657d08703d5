package migrate

import (
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// Current is the version of this library's stored messages. To raise it: freeze
// golden/v<Current>, raise it, and add a step for each of Versioned to stored.
const Current uint32 = 1

var stored = New(Current)

// Stored is the schema of this library's stored messages, those of [Versioned].
func Stored() *Schema { return stored }

// Versioned returns a nil pointer of each stored message that may change its shape with
// the version. A StateSnapshot has a stamp, too, but is never stored: its parts are
// exported as they are, each with its own stamp.
func Versioned() []Message {
	return []Message{
		(*pb.MemoryBlob)(nil),
		(*pb.Continuation)(nil),
		(*pb.LlmCacheBlob)(nil),
		(*runtimepb.KeyControl)(nil),
	}
}
