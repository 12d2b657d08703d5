package main

import (
	"bufio"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// schemaSet is the schema with its comments. make generate makes it.
//
//go:embed schema.binpb
var schemaSet []byte

const schemaPackage = "beam_agents.v1"

// messageNames returns the names of all messages of the schema, without the package.
func messageNames() (names []string) {
	var walk func(protoreflect.MessageDescriptors)
	walk = func(messages protoreflect.MessageDescriptors) {
		for i := range messages.Len() {
			if md := messages.Get(i); !md.IsMapEntry() {
				names = append(names, shortName(md))
				walk(md.Messages())
			}
		}
	}
	walk(pb.File_beam_agents_v1_beam_agents_proto.Messages())
	return names
}

func shortName(d protoreflect.Descriptor) string {
	return strings.TrimPrefix(string(d.FullName()), schemaPackage+".")
}

// fullName returns the full name of a message that the user names with or without the package.
func fullName(name string) (protoreflect.FullName, error) {
	short := strings.TrimPrefix(name, schemaPackage+".")
	for _, known := range messageNames() {
		if known == short {
			return protoreflect.FullName(schemaPackage + "." + known), nil
		}
	}
	return "", fmt.Errorf("there is no message %q; beamagents types lists them", name)
}

// messageType returns the type of the message that the user calls name.
func messageType(name string) (protoreflect.MessageType, error) {
	full, err := fullName(name)
	if err != nil {
		return nil, err
	}
	return protoregistry.GlobalTypes.FindMessageByName(full)
}

// typeFlag adds the required flag --type.
func typeFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "type", "", "message, such as ToolIntent or beam_agents.v1.ToolIntent")
	err := errors.Join(
		cmd.MarkFlagRequired("type"),
		cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(messageNames(), cobra.ShellCompDirectiveNoFileComp)),
	)
	if err != nil {
		panic(err) // cannot happen: the flag exists
	}
}

func newTypes() *cobra.Command {
	return &cobra.Command{
		Use:   "types [TYPE]",
		Short: "List the messages, or the fields of one and how to read them",
		Long: `List the messages of the schema. With TYPE list its fields, with their numbers and
types, and its enums, and what a reader must know about each.`,
		Example: `  $ beamagents types AgentEnvelope.StateExportRequest
  beam_agents.v1.AgentEnvelope.StateExportRequest

  StateExportRequest asks for a StateSnapshot of the key.

  1 request_id string
      Copied into the snapshot. May be empty.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: cobra.FixedCompletions(messageNames(), cobra.ShellCompDirectiveNoFileComp),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			file, err := readSchema()
			if err != nil {
				return err
			}
			out := bufio.NewWriter(cmd.OutOrStdout())
			defer func() { err = flush(out, err) }()
			if len(args) == 0 {
				for _, name := range messageNames() {
					fmt.Fprintf(out, "%-32s %s\n", name, firstSentence(comment(messageIn(file, name))))
				}
				return nil
			}
			full, err := fullName(args[0])
			if err != nil {
				return err
			}
			describe(out, messageIn(file, strings.TrimPrefix(string(full), schemaPackage+".")))
			return nil
		},
	}
}

// readSchema returns the schema with comments, which generated code does not have.
func readSchema() (protoreflect.FileDescriptor, error) {
	set := new(descriptorpb.FileDescriptorSet)
	if err := proto.Unmarshal(schemaSet, set); err != nil || len(set.GetFile()) != 1 {
		return nil, fmt.Errorf("the schema in this program is broken: %d files, %w", len(set.GetFile()), err)
	}
	return protodesc.NewFile(set.GetFile()[0], nil)
}

// messageIn returns the message of file with that name, without the package.
func messageIn(file protoreflect.FileDescriptor, name string) protoreflect.MessageDescriptor {
	messages := file.Messages()
	for {
		head, rest, nested := strings.Cut(name, ".")
		md := messages.ByName(protoreflect.Name(head))
		if !nested {
			return md
		}
		messages, name = md.Messages(), rest
	}
}

func describe(w io.Writer, md protoreflect.MessageDescriptor) {
	fmt.Fprintf(w, "%s\n\n%s\n", md.FullName(), comment(md))
	if md.Fields().Len() > 0 {
		fmt.Fprintln(w)
	}
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		fmt.Fprintf(w, "%d %s %s\n", fd.Number(), fd.Name(), typeName(fd))
		indent(w, comment(fd))
	}
	for i := range md.Oneofs().Len() {
		one := md.Oneofs().Get(i)
		var names []string
		for j := range one.Fields().Len() {
			names = append(names, string(one.Fields().Get(j).Name()))
		}
		fmt.Fprintf(w, "\n%s: one of %s\n", one.Name(), strings.Join(names, ", "))
		indent(w, comment(one))
	}
	for i := range md.Enums().Len() {
		ed := md.Enums().Get(i)
		fmt.Fprintf(w, "\nenum %s\n", ed.Name())
		indent(w, comment(ed))
		for j := range ed.Values().Len() {
			v := ed.Values().Get(j)
			fmt.Fprintf(w, "%d %s\n", v.Number(), v.Name())
			indent(w, comment(v))
		}
	}
}

func typeName(fd protoreflect.FieldDescriptor) string {
	name := fd.Kind().String()
	switch {
	case fd.IsMap():
		return fmt.Sprintf("map<%s, %s>", typeName(fd.MapKey()), typeName(fd.MapValue()))
	case fd.Message() != nil:
		name = shortName(fd.Message())
	case fd.Enum() != nil:
		name = shortName(fd.Enum())
	}
	if fd.IsList() {
		return "repeated " + name
	}
	return name
}

// comment returns the comment on d in the .proto file, without indentation.
func comment(d protoreflect.Descriptor) string {
	text := d.ParentFile().SourceLocations().ByDescriptor(d).LeadingComments
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// firstSentence returns the first sentence of a comment as one line.
func firstSentence(text string) string {
	text = strings.ReplaceAll(text, "\n", " ")
	if i := strings.Index(text, ". "); i >= 0 {
		return text[:i+1]
	}
	return text
}

func indent(w io.Writer, text string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\n"); line != "" {
			line = "    " + line
		}
		fmt.Fprintln(w, line)
	}
}
