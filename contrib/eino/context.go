package eino

import (
	"context"
	"errors"
	"net/http"

	"github.com/cloudwego/eino/compose"

	"github.com/beamagents/beamagents-go/pkg/adapter"
)

// checkpointID is the id of the only checkpoint of a run.
const checkpointID = "activation"

// HTTPClient returns a client for chat models. A request belongs to the activation of the [Run]
// whose context it has. Its response is stored in the state of the key, and the same request is
// not sent again. A request with another context fails.
func HTTPClient() *http.Client { return adapter.HTTPClient() }

// Store returns the checkpoint store for compose.WithCheckPointStore. It keeps the checkpoint of
// a [Run] in the snapshot of its activation.
func Store() compose.CheckPointStore { return store{} }

type store struct{}

type storedKey struct{}

// stored is the checkpoint of a run, or nil.
type stored struct{ checkpoint []byte }

func storedOf(ctx context.Context) (*stored, error) {
	s, ok := ctx.Value(storedKey{}).(*stored)
	if !ok {
		return nil, errors.New("eino: the context has no activation: call the graph with eino.Run")
	}
	return s, nil
}

func (store) Get(ctx context.Context, _ string) ([]byte, bool, error) {
	s, err := storedOf(ctx)
	if err != nil {
		return nil, false, err
	}
	return s.checkpoint, s.checkpoint != nil, nil
}

func (store) Set(ctx context.Context, _ string, checkpoint []byte) error {
	s, err := storedOf(ctx)
	if err != nil {
		return err
	}
	s.checkpoint = checkpoint
	return nil
}
