package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Crashes are the places at which a job crashes, once each.
type Crashes struct {
	Dir    string
	Places map[string]string // kind by STEP:NUMBER
}

func parseCrashes(text, dir string) (Crashes, error) {
	c := Crashes{Dir: dir, Places: map[string]string{}}
	for place := range strings.SplitSeq(text, ",") {
		if place == "" {
			continue
		}
		parts := strings.Split(place, ":")
		if len(parts) != 3 {
			return c, fmt.Errorf("--crashes: %q is not STEP:NUMBER:KIND", place)
		}
		c.Places[parts[0]+":"+parts[1]] = parts[2]
	}
	return c, nil
}

// at crashes if this place has a crash that has not happened yet.
func (c Crashes) at(step string, number int) error {
	place := step + ":" + strconv.Itoa(number)
	kind := c.Places[place]
	if kind == "" {
		return nil
	}
	// A file is not part of what Flink restores, so it records for good that the crash has
	// happened.
	f, err := os.OpenFile(filepath.Join(c.Dir, "crashed-"+place), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	} else if err != nil {
		return err
	}
	_ = f.Close() // it is empty
	switch kind {
	case "error":
		return fmt.Errorf("crash of kind error at %s", place)
	case "panic":
		panic("crash of kind panic at " + place)
	case "kill":
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	return fmt.Errorf("unknown kind of crash %q", kind)
}
