package main

import (
	"strings"

	"google.golang.org/protobuf/proto"

	supportpb "github.com/beamagents/beamagents-go/examples/memory/proto/support/v1"
	"github.com/beamagents/beamagents-go/pkg/coders"
	"github.com/beamagents/beamagents-go/pkg/migrate"
)

// customers is the schema of Customer. This build writes version 2.
var customers = migrate.New(2)

func init() {
	coders.Register((*supportpb.Customer)(nil))
	migrate.AddStep(customers, 1, splitCustomer)
}

// splitCustomer is the step from version 1, in which name and address were one field.
func splitCustomer(old *supportpb.Customer) (*supportpb.Customer, error) {
	c := proto.CloneOf(old) // keeps fields that this build does not know
	c.StateSchemaVersion, c.Contact = 2, ""
	c.Name, c.Address = splitContact(old.GetContact())
	return c, nil
}

// splitContact accepts any text, because a step that fails would fail the bundles of its customer
// for ever.
func splitContact(contact string) (name, address string) {
	name, address, _ = strings.Cut(contact, "<")
	return strings.TrimSpace(name), strings.TrimSuffix(strings.TrimSpace(address), ">")
}
