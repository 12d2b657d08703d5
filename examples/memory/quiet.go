package main

import (
	"context"
	"log/slog"
	"strings"
)

// quietEnd leaves out what the SDK now and then says at the end of a job, when the
// embedded runner hangs up.
type quietEnd struct{ slog.Handler }

// Handle is slog.Handler's.
func (h quietEnd) Handle(ctx context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "[SDK] StateChannel[") &&
		(strings.HasSuffix(r.Message, ".read: closed") || strings.HasSuffix(r.Message, "context canceled")) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}
