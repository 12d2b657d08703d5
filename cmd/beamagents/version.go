package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/beamagents/beamagents-go/pkg/events"
)

// stateSchemaVersion is the version of the stored messages that this program knows. A test
// compares it with the newest folder of the golden blobs.
const stateSchemaVersion = 1

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the program, of Go and of the schemas",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			version := "(devel)"
			if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
				version = info.Main.Version
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(),
				"beamagents %s\n%s\nwire schema %s\nstate schema version %d\nagent event protocol %d\n",
				version, runtime.Version(), schemaPackage, stateSchemaVersion, events.EnvelopeVersion)
			return err
		},
	}
}
