package migrate

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/beamagents/beamagents-go/golden"
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// bump is a step that notes in the adapter which versions it has passed.
func bump(m *pb.Continuation) (*pb.Continuation, error) {
	next := proto.CloneOf(m)
	next.Adapter += fmt.Sprint(m.GetStateSchemaVersion())
	next.StateSchemaVersion = max(m.GetStateSchemaVersion(), 1) + 1
	return next, nil
}

// chain is a schema of a current version with steps from the given ones.
func chain(current uint32, from ...uint32) *Schema {
	s := New(current)
	for _, v := range from {
		AddStep(s, v, bump)
	}
	return s
}

func at(version uint32) *pb.Continuation {
	return &pb.Continuation{StateSchemaVersion: version, Seq: 7}
}

func TestToCurrent(t *testing.T) {
	const name = "beam_agents.v1.Continuation"
	boom := errors.New("boom")
	with := func(s *Schema, from uint32, step func(*pb.Continuation) (*pb.Continuation, error)) *Schema {
		AddStep(s, from, step)
		return s
	}
	for what, tc := range map[string]struct {
		schema  *Schema
		version uint32
		passed  string // what the steps noted
		err     error
	}{
		"one step":           {chain(2, 1), 1, "1", nil},
		"an absent stamp":    {chain(2, 1), 0, "0", nil},
		"a chain":            {chain(4, 1, 2, 3), 1, "123", nil},
		"a part of a chain":  {chain(4, 1, 2, 3), 3, "3", nil},
		"steps in any order": {chain(3, 2, 1), 1, "12", nil},
		"the first is missing": {
			chain(3, 2), 1, "", &GapError{name, 1, 3}},
		"the last is missing": {
			chain(3, 1), 1, "", &GapError{name, 2, 3}},
		"the missing one is not needed": {chain(3, 2), 2, "2", nil},
		"from the future": {
			chain(2, 1), 3, "", &FutureError{name, 3, 2}},
		"from the future of version 1": {
			New(1), 2, "", &FutureError{name, 2, 1}},
		"a step fails": {
			with(chain(3, 1), 2, func(*pb.Continuation) (*pb.Continuation, error) { return at(3), boom }), 1, "",
			&StepError{name, 2, boom}},
		"a step stands still": {
			with(New(2), 1, func(*pb.Continuation) (*pb.Continuation, error) { return at(1), nil }), 1, "",
			&StepError{name, 1, errors.New("it produced version 1")}},
		"a step leaps": {
			with(chain(3, 2), 1, func(*pb.Continuation) (*pb.Continuation, error) { return at(3), nil }), 1, "",
			&StepError{name, 1, errors.New("it produced version 3")}},
		"a step produces nothing": {
			with(New(2), 1, func(*pb.Continuation) (*pb.Continuation, error) { return nil, nil }), 1, "",
			&StepError{name, 1, errors.New("it produced no message")}},
		"a step works in place": {
			with(New(2), 1, func(m *pb.Continuation) (*pb.Continuation, error) { m.StateSchemaVersion = 2; return m, nil }), 1, "",
			&StepError{name, 1, errors.New("it changed the message that it was given")}},
		"a step panics": {
			with(New(2), 1, func(*pb.Continuation) (*pb.Continuation, error) { panic("ouch") }), 1, "",
			&StepError{name, 1, errors.New("panic: ouch")}},
	} {
		t.Run(what, func(t *testing.T) {
			in := at(tc.version)
			got, err := ToCurrent(tc.schema, in)
			if tc.err != nil {
				if err == nil || err.Error() != tc.err.Error() || got != nil {
					t.Fatalf("%v, %v; want the error %v", got, err, tc.err)
				}
				// errors.As tells the kinds of errors apart, and each text says what it is about.
				wrapped := fmt.Errorf("cell: %w", err)
				var future, wantFuture *FutureError
				var gap, wantGap *GapError
				var step, wantStep *StepError
				switch {
				case errors.As(tc.err, &wantFuture):
					if !errors.As(wrapped, &future) || *future != *wantFuture {
						t.Errorf("As: %v", future)
					}
				case errors.As(tc.err, &wantGap):
					if !errors.As(wrapped, &gap) || *gap != *wantGap {
						t.Errorf("As: %v", gap)
					}
				case errors.As(tc.err, &wantStep):
					if !errors.As(wrapped, &step) || step.From != wantStep.From {
						t.Errorf("As: %v", step)
					}
				}
				if strings.Contains(tc.err.Error(), boom.Error()) && !errors.Is(wrapped, boom) {
					t.Error("the step's own error is lost")
				}
				return
			}
			want := at(tc.schema.Current())
			want.Adapter = tc.passed
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			if diff := cmp.Diff(at(tc.version), in, protocmp.Transform()); diff != "" {
				t.Errorf("the stored message has changed (-was +is):\n%s", diff)
			}
		})
	}
}

func TestCurrentIsNotCopied(t *testing.T) {
	for _, s := range []*Schema{New(1), chain(3, 1, 2)} {
		m := at(s.Current())
		if got, err := ToCurrent(s, m); got != m || err != nil {
			t.Errorf("version %d: %p, %v; want %p", s.Current(), got, err, m)
		}
	}
	unstamped := at(0)
	if got, err := ToCurrent(New(1), unstamped); got != unstamped || err != nil || got.GetStateSchemaVersion() != 0 {
		t.Errorf("stamp 0: %v, %v", got, err)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = ToCurrent(stored, unstamped) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestNilPassesThrough(t *testing.T) {
	s := chain(2, 1)
	if got, err := ToCurrent(s, (*pb.Continuation)(nil)); got != nil || err != nil {
		t.Errorf("a nil pointer: %v, %v", got, err)
	}
	if got, err := ToCurrent[Message](s, nil); got != nil || err != nil {
		t.Errorf("nil: %v, %v", got, err)
	}
	if err := s.Check((*pb.Continuation)(nil)); err != nil {
		t.Error(err)
	}
}

func TestUnknownFieldsArriveAtTheStep(t *testing.T) {
	m := at(1)
	m.ProtoReflect().SetUnknown([]byte{0xa0, 0x1f, 0x2a})
	got, err := ToCurrent(chain(3, 1, 2), m)
	if err != nil || string(got.ProtoReflect().GetUnknown()) != "\xa0\x1f\x2a" {
		t.Errorf("%x, %v", got.ProtoReflect().GetUnknown(), err)
	}
}

func TestStoredVersion(t *testing.T) {
	for _, tc := range []struct {
		m       Message
		version uint32
		stamped bool
	}{
		{at(0), 1, false}, {at(1), 1, true}, {at(9), 9, true}, {nil, 1, false}, {(*pb.Continuation)(nil), 1, false},
	} {
		if version, stamped := StoredVersion(tc.m); version != tc.version || stamped != tc.stamped {
			t.Errorf("StoredVersion(%v) = %d, %v", tc.m, version, stamped)
		}
	}
}

func TestSchemaThatCannotBe(t *testing.T) {
	for name, build := range map[string]func(){
		"version 0":                 func() { New(0) },
		"a step from 0":             func() { AddStep(New(2), 0, bump) },
		"a step from the current":   func() { AddStep(New(2), 2, bump) },
		"a step of version 1 alone": func() { AddStep(New(1), 1, bump) },
		"two steps from a version":  func() { AddStep(chain(2, 1), 1, bump) },
	} {
		func() {
			defer func() {
				if p := recover(); p == nil || !strings.HasPrefix(fmt.Sprint(p), "migrate: ") {
					t.Errorf("%s: %v", name, p)
				}
			}()
			build()
		}()
	}
}

func TestGaps(t *testing.T) {
	s := chain(4, 2)
	var got []string
	for _, err := range s.Gaps((*pb.Continuation)(nil), (*pb.MemoryBlob)(nil)) {
		var gap *GapError
		if !errors.As(err, &gap) {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %d", gap.Message.Name(), gap.From))
	}
	if diff := cmp.Diff([]string{"Continuation 1", "Continuation 3", "MemoryBlob 1", "MemoryBlob 2", "MemoryBlob 3"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// incomplete lists what is missing for a version to be the current one: steps, and the
// frozen folders of all versions with a blob of every versioned message.
func incomplete(s *Schema, frozen fs.FS) (problems []string) {
	for _, gap := range s.Gaps(Versioned()...) {
		problems = append(problems, gap.Error())
	}
	for version := uint32(1); version <= s.Current(); version++ {
		for _, m := range Versioned() {
			files, err := fs.Glob(frozen, fmt.Sprintf("v%d/%s*.binpb", version, snake(m.ProtoReflect().Descriptor().Name())))
			if err != nil || len(files) == 0 {
				problems = append(problems, fmt.Sprintf("golden/v%d has no blob of %s", version, m.ProtoReflect().Descriptor().Name()))
			}
		}
	}
	return problems
}

// snake is the way blobs are named: memory_blob for MemoryBlob.
func snake(name protoreflect.Name) string {
	var b strings.Builder
	for i, r := range string(name) {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return strings.ToLower(b.String())
}

func goldenFiles(t *testing.T) fstest.MapFS {
	t.Helper()
	blobs, err := golden.Blobs()
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{}
	for _, b := range blobs {
		files[b.Name+".binpb"] = &fstest.MapFile{Data: b.Bytes}
	}
	return files
}

// Whoever raises Current finds here what remains to be done.
func TestCurrentVersionIsComplete(t *testing.T) {
	for _, problem := range incomplete(Stored(), goldenFiles(t)) {
		t.Error(problem)
	}
	if Stored().Current() != Current {
		t.Errorf("Stored is at version %d", Stored().Current())
	}
}

func TestRaisedVersionIsIncomplete(t *testing.T) {
	files := goldenFiles(t)
	raised := New(Current + 1)
	versioned := len(Versioned())
	if got := incomplete(raised, files); len(got) != 2*versioned {
		t.Errorf("without steps and folder: %q", got)
	}
	AddStep(raised, Current, func(m *pb.MemoryBlob) (*pb.MemoryBlob, error) { return m, nil })
	if got := incomplete(raised, files); len(got) != 2*versioned-1 {
		t.Errorf("with one step: %q", got)
	}
	for _, m := range Versioned() {
		files[fmt.Sprintf("v%d/%s.binpb", Current+1, snake(m.ProtoReflect().Descriptor().Name()))] = &fstest.MapFile{}
	}
	if got := incomplete(raised, files); len(got) != versioned-1 {
		t.Errorf("with one step and the folder: %q", got)
	}
	AddStep(raised, Current, func(m *pb.Continuation) (*pb.Continuation, error) { return m, nil })
	AddStep(raised, Current, func(m *pb.LlmCacheBlob) (*pb.LlmCacheBlob, error) { return m, nil })
	AddStep(raised, Current, func(m *runtimepb.KeyControl) (*runtimepb.KeyControl, error) { return m, nil })
	if got := incomplete(raised, files); got != nil {
		t.Errorf("with all: %q", got)
	}
}

// Every message with a stamp is in the list. Otherwise it would be stored and never migrated.
func TestEveryStampedMessageIsVersioned(t *testing.T) {
	var listed, stamped []protoreflect.FullName
	for _, m := range Versioned() {
		listed = append(listed, m.ProtoReflect().Descriptor().FullName())
	}
	protoregistry.GlobalTypes.RangeMessages(func(mt protoreflect.MessageType) bool {
		md := mt.Descriptor()
		pkg := md.ParentFile().Package()
		if (pkg == "beam_agents.v1" || pkg == "beam_agents.runtime.v1") && md.Fields().ByName("state_schema_version") != nil {
			stamped = append(stamped, md.FullName())
		}
		return true
	})
	listed = append(listed, "beam_agents.v1.StateSnapshot") // never stored
	slices.Sort(listed)
	slices.Sort(stamped)
	if diff := cmp.Diff(listed, stamped); diff != "" {
		t.Errorf("(-listed +stamped):\n%s", diff)
	}
}

// Blobs of every version that was ever current are migrated to the current version. Blobs of a
// newer version are refused with an error that names the version.
func TestGoldenBlobsMigrate(t *testing.T) {
	blobs, err := golden.Blobs()
	if err != nil {
		t.Fatal(err)
	}
	var read, refused int
	for _, b := range blobs {
		mt, err := protoregistry.GlobalTypes.FindMessageByName(b.Message)
		if err != nil {
			t.Fatal(err)
		}
		m, ok := mt.New().Interface().(Message)
		if !ok || !slices.ContainsFunc(Versioned(), func(v Message) bool { return v.ProtoReflect().Descriptor() == mt.Descriptor() }) {
			continue
		}
		if err := proto.Unmarshal(b.Bytes, m); err != nil {
			t.Fatal(err)
		}
		current, err := ToCurrent(Stored(), m)
		if strings.HasSuffix(b.Name, "_future_version") {
			refused++
			var future *FutureError
			if !errors.As(err, &future) || future.Found != m.GetStateSchemaVersion() || future.Current != Current {
				t.Errorf("%s: %v", b.Name, err)
			}
			continue
		}
		read++
		if version, _ := StoredVersion(current); err != nil || version != Current {
			t.Errorf("%s: version %d, %v", b.Name, version, err)
		}
	}
	if read < 10 || refused < 3 {
		t.Errorf("%d blobs read and %d refused: not much of a test", read, refused)
	}
}
