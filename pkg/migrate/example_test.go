package migrate_test

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/migrate"
	testingpb "github.com/beamagents/beamagents-go/proto/beam_agents/testing/v1"
)

// profiles is the schema of a message of your own: this build writes version 2.
var profiles = migrate.New(2)

func init() {
	// Version 1 had the name in one field.
	migrate.AddStep(profiles, 1, func(old *testingpb.Profile) (*testingpb.Profile, error) {
		p := proto.CloneOf(old) // keeps what this build does not know
		p.StateSchemaVersion = 2
		p.GivenName, p.FamilyName, _ = strings.Cut(old.GetName(), " ")
		p.Name = ""
		return p, nil
	})
}

func Example() {
	stored := &testingpb.Profile{StateSchemaVersion: 1, Name: "Ada Lovelace"}
	p, err := migrate.ToCurrent(profiles, stored)
	fmt.Println(p.GetStateSchemaVersion(), p.GetFamilyName(), err)

	newer := &testingpb.Profile{StateSchemaVersion: 3}
	_, err = migrate.ToCurrent(profiles, newer)
	fmt.Println(err)
	// Output:
	// 2 Lovelace <nil>
	// migrate: beam_agents.testing.v1.Profile is of schema version 3 and this build reads up to 2: run the newer build; the stored state is untouched
}

// In a test of your own: no version is without a step.
func ExampleSchema_Gaps() {
	fmt.Println(profiles.Gaps((*testingpb.Profile)(nil)))
	// Output: []
}
