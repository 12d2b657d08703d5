package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestQuietEnd(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(quietEnd{slog.NewTextHandler(&out, nil)})
	log.Error("[SDK] StateChannel[localhost:1].read bad: rpc error: code = Canceled desc = context canceled")
	log.Warn("[SDK] StateChannel[localhost:1].read: closed")
	log.Error("[SDK] StateChannel[localhost:1].read bad: rpc error: code = Unavailable")
	log.Error("context canceled")
	if got := out.String(); strings.Count(got, "\n") != 2 || strings.Contains(got, "Canceled") || strings.Contains(got, "closed") {
		t.Errorf("logged:\n%s", got)
	}
}
