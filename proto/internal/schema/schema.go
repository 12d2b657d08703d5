// Package schema checks that .proto files change only in allowed ways.
//
// It is for the tests of the packages of generated code beside it.
//
// # Behaviour
//
// [Text] describes a whole file, for comparison. [Breaches] checks the rules for any file.
// [NotAdditive] compares a file with an older version, such as one of [Baselines]. Functions that
// list problems do so in the order of the file, and list nothing if all is well.
//
// # Limits
//
// Services, extensions and options are ignored, because no file has any.
//
// # Differences from buf breaking
//
// buf breaking knows more rules, but compares only with the last release. NotAdditive needs no
// tool, compares with every baseline, and does not accept renames.
package schema

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Text returns everything on which the encodings of file depend: a line for each field, enum
// value and reservation, in the order of the file. Names are without the package.
func Text(file protoreflect.FileDescriptor) string {
	var out strings.Builder
	options, _ := file.Options().(*descriptorpb.FileOptions)
	fmt.Fprintf(&out, "\nfile %s %v\npackage %s\ngo_package %s\n\n", file.Path(), file.Syntax(), file.Package(), options.GetGoPackage())
	short := func(d protoreflect.Descriptor) string {
		return strings.TrimPrefix(string(d.FullName()), string(file.Package())+".")
	}
	typeOf := func(fd protoreflect.FieldDescriptor) string {
		switch {
		case fd.Message() != nil:
			return short(fd.Message())
		case fd.Enum() != nil:
			return short(fd.Enum())
		}
		return fd.Kind().String()
	}
	var messages func(protoreflect.MessageDescriptors)
	enums := func(all protoreflect.EnumDescriptors) {
		for ed := range elements(all) {
			fmt.Fprintf(&out, "enum %s\n", short(ed))
			for v := range elements(ed.Values()) {
				fmt.Fprintf(&out, "  %d %s\n", v.Number(), v.Name())
			}
		}
	}
	messages = func(all protoreflect.MessageDescriptors) {
		for md := range elements(all) {
			if md.IsMapEntry() {
				continue
			}
			fmt.Fprintf(&out, "message %s\n", short(md))
			for fd := range elements(md.Fields()) {
				fmt.Fprintf(&out, "  %d %s ", fd.Number(), fd.Name())
				switch {
				case fd.IsMap():
					fmt.Fprintf(&out, "map<%s, %s>", typeOf(fd.MapKey()), typeOf(fd.MapValue()))
				case fd.IsList():
					out.WriteString("repeated " + typeOf(fd))
				default:
					out.WriteString(typeOf(fd))
				}
				switch one := fd.ContainingOneof(); {
				case one != nil && !one.IsSynthetic():
					fmt.Fprintf(&out, " oneof %s", one.Name())
				case fd.HasOptionalKeyword():
					out.WriteString(" optional")
				}
				out.WriteByte('\n')
			}
			for i := range md.ReservedRanges().Len() {
				fmt.Fprintf(&out, "  reserved %v\n", md.ReservedRanges().Get(i))
			}
			for i := range md.ReservedNames().Len() {
				fmt.Fprintf(&out, "  reserved %q\n", md.ReservedNames().Get(i))
			}
			enums(md.Enums())
			messages(md.Messages())
		}
	}
	enums(file.Enums())
	messages(file.Messages())
	return out.String()
}

// The field numbers that golden blobs hold as unknown fields. No field or enum value may ever get
// one of them, because the blobs are frozen.
const (
	goldenFirst, goldenLast = 500, 599
	goldenUnknown           = 99
)

// Breaches lists where file breaks a rule that holds for every version of it. maps are the only
// map fields that file may have, because generated code writes maps in any order.
func Breaches(file protoreflect.FileDescriptor, maps ...protoreflect.FullName) (breaches []string) {
	var found []protoreflect.FullName
	enums := func(all protoreflect.EnumDescriptors) {
		for ed := range elements(all) {
			if zero := ed.Values().ByNumber(0); zero == nil || !strings.HasSuffix(string(zero.Name()), "_UNSPECIFIED") {
				breaches = append(breaches, fmt.Sprintf("the zero value of %s is not _UNSPECIFIED", ed.FullName()))
			}
			for v := range elements(ed.Values()) {
				if v.Number() == goldenUnknown || v.Number() < 0 {
					breaches = append(breaches, fmt.Sprintf("%s has number %d, which golden blobs hold as unknown", v.FullName(), v.Number()))
				}
			}
		}
	}
	var messages func(protoreflect.MessageDescriptors)
	messages = func(all protoreflect.MessageDescriptors) {
		for md := range elements(all) {
			for fd := range elements(md.Fields()) {
				if fd.IsMap() {
					found = append(found, fd.FullName())
				}
				if fd.Number() >= goldenFirst && fd.Number() <= goldenLast {
					breaches = append(breaches, fmt.Sprintf("%s has number %d, which golden blobs hold as unknown", fd.FullName(), fd.Number()))
				}
				if fd.HasOptionalKeyword() {
					breaches = append(breaches, fmt.Sprintf("%s is optional", fd.FullName()))
				}
			}
			enums(md.Enums())
			messages(md.Messages())
		}
	}
	enums(file.Enums())
	messages(file.Messages())
	if !slices.Equal(found, maps) {
		breaches = append(breaches, fmt.Sprintf("maps are %q, want %q", found, maps))
	}
	return breaches
}

// NotAdditive lists what now no longer reads as old defined it, with the same number, type and
// name. A field or enum value may be removed only if its number and its name are reserved.
func NotAdditive(old, now protoreflect.FileDescriptor) (problems []string) {
	report := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if old.Package() != now.Package() {
		report("package %s is %s", old.Package(), now.Package())
	}
	enums := func(oldEnums, nowEnums protoreflect.EnumDescriptors) {
		for ed := range elements(oldEnums) {
			nowEd := nowEnums.ByName(ed.Name())
			if nowEd == nil {
				report("enum %s is gone", ed.FullName())
				continue
			}
			for v := range elements(ed.Values()) {
				got := nowEd.Values().ByNumber(v.Number())
				switch {
				case got != nil && got.Name() != v.Name():
					report("%d of %s is %s, was %s", v.Number(), ed.FullName(), got.Name(), v.Name())
				case got == nil && (!nowEd.ReservedRanges().Has(v.Number()) || !nowEd.ReservedNames().Has(v.Name())):
					report("%s is gone and not reserved", v.FullName())
				}
			}
			for v := range elements(nowEd.Values()) {
				if ed.ReservedRanges().Has(v.Number()) || ed.ReservedNames().Has(v.Name()) {
					report("%s was reserved", v.FullName())
				}
			}
		}
	}
	var messages func(oldMessages, nowMessages protoreflect.MessageDescriptors)
	messages = func(oldMessages, nowMessages protoreflect.MessageDescriptors) {
		for md := range elements(oldMessages) {
			nowMd := nowMessages.ByName(md.Name())
			if nowMd == nil {
				report("message %s is gone", md.FullName())
				continue
			}
			for fd := range elements(md.Fields()) {
				got := nowMd.Fields().ByNumber(fd.Number())
				switch {
				case got != nil && wireShape(got) != wireShape(fd):
					report("field %d of %s is %q, was %q", fd.Number(), md.FullName(), wireShape(got), wireShape(fd))
				case got == nil && (!nowMd.ReservedRanges().Has(fd.Number()) || !nowMd.ReservedNames().Has(fd.Name())):
					report("%s is gone and not reserved", fd.FullName())
				}
			}
			for fd := range elements(nowMd.Fields()) {
				if md.ReservedRanges().Has(fd.Number()) || md.ReservedNames().Has(fd.Name()) {
					report("%s was reserved", fd.FullName())
				}
			}
			enums(md.Enums(), nowMd.Enums())
			messages(md.Messages(), nowMd.Messages())
		}
	}
	enums(old.Enums(), now.Enums())
	messages(old.Messages(), now.Messages())
	return problems
}

// wireShape returns everything of a field on which its binary and JSON encodings depend.
func wireShape(fd protoreflect.FieldDescriptor) string {
	parts := []string{string(fd.Name()), fd.JSONName(), fd.Cardinality().String(), fd.Kind().String()}
	switch {
	case fd.Message() != nil:
		parts = append(parts, string(fd.Message().FullName()))
	case fd.Enum() != nil:
		parts = append(parts, string(fd.Enum().FullName()))
	}
	if fd.HasPresence() {
		parts = append(parts, "presence")
	}
	if fd.IsPacked() {
		parts = append(parts, "packed")
	}
	if fd.IsMap() {
		parts = append(parts, "map")
	}
	if one := fd.ContainingOneof(); one != nil {
		parts = append(parts, "oneof", string(one.Name()))
	}
	return strings.Join(parts, " ")
}

// Baselines returns the versions of the file with that path in the descriptor sets of fsys, by
// the name of the set. Sets from before the file existed are left out.
func Baselines(fsys fs.FS, path string) (map[string]protoreflect.FileDescriptor, error) {
	names, err := fs.Glob(fsys, "*.binpb")
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	all := map[string]protoreflect.FileDescriptor{}
	for _, name := range names {
		raw, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, fmt.Errorf("schema: %w", err)
		}
		set := &descriptorpb.FileDescriptorSet{}
		if err := proto.Unmarshal(raw, set); err != nil {
			return nil, fmt.Errorf("schema: %s: %w", name, err)
		}
		files, err := protodesc.NewFiles(set)
		if err != nil {
			return nil, fmt.Errorf("schema: %s: %w", name, err)
		}
		if file, err := files.FindFileByPath(path); err == nil {
			all[strings.TrimSuffix(name, ".binpb")] = file
		}
	}
	return all, nil
}

// elements ranges over a list of descriptors.
func elements[D any](list interface {
	Len() int
	Get(int) D
},
) func(func(D) bool) {
	return func(yield func(D) bool) {
		for i := range list.Len() {
			if !yield(list.Get(i)) {
				return
			}
		}
	}
}
