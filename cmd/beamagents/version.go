package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/beamagents/beamagents-go/pkg/events"
)

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
				"beamagents %s\n%s\nwire schema beam_agents.v1\nagent event protocol %d\n",
				version, runtime.Version(), events.EnvelopeVersion)
			return err
		},
	}
}
