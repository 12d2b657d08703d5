package main

import (
	"context"
	"log/slog"
	"strings"
)

// quietEnd drops a message that the SDK sometimes logs at the end of a job, when the embedded
// runner closes its connections.
type quietEnd struct{ slog.Handler }

// Handle implements slog.Handler.
func (h quietEnd) Handle(ctx context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "[SDK] StateChannel[") &&
		(strings.HasSuffix(r.Message, ".read: closed") || strings.HasSuffix(r.Message, "context canceled")) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}
