package intent_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/beamagents/beamagents-go/pkg/intent"
	beamagentspb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// keyring makes one of pairs of id and key.
// Two keys that are just long enough.
const keyOne, keyTwo = "one, of 16 bytes", "two, of 16 bytes"

func keyring(t testing.TB, pairs ...string) *intent.Keyring {
	t.Helper()
	var text strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		text.WriteString(pairs[i] + "=" + base64.StdEncoding.EncodeToString([]byte(pairs[i+1])) + "\n")
	}
	ring, err := intent.ParseKeyring(text.String())
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func signer(t testing.TB, ring *intent.Keyring, id string) *intent.Signer {
	t.Helper()
	s, err := intent.NewSigner(ring, id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sign(t testing.TB, s *intent.Signer, in *beamagentspb.ToolIntent) *beamagentspb.ToolIntent {
	t.Helper()
	out, err := s.Sign(in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func encode(t testing.TB, in *beamagentspb.ToolIntent) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func decode(t testing.TB, wire []byte) *beamagentspb.ToolIntent {
	t.Helper()
	in := new(beamagentspb.ToolIntent)
	if err := proto.Unmarshal(wire, in); err != nil {
		t.Fatal(err)
	}
	return in
}

func fromHex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func counting() string {
	key := make([]byte, 32)
	for i := range key {
		key[i] = byte(i)
	}
	return string(key)
}

const (
	goldenSigned = "0a2464646464646464642d656565652d356666662d383030302d3131313131313131313131311208656e746974792d31180720052a09687474702e706f7374321e7b2275726c223a2268747470733a2f2f6578616d706c652e74657374227d3880d095ffbc3140e0a499ffbc315001"
	goldenFuture = "0a2465656565656565652d666666662d353030302d383131312d3232323232323232323232321208656e746974792d31180720062a09687474702e706f7374321e7b2275726c223a2268747470733a2f2f6578616d706c652e74657374227d3880d095ffbc3140e0a499ffbc315001"
	plainSigned  = "0a2432653034373436382d316262382d353731372d386362302d64386539386631356137363712016b20012a09687474702e706f7374320b7b2275726c223a2278227d38e80740c8dc0350015a102bf05d87d33251718085abe0727ad51a"
)

// What a program in another language signed.
func TestSignGoldens(t *testing.T) {
	for name, tt := range map[string]struct {
		key, id      string
		input, wire  string
		length       int
		inputUnknown string
	}{
		"signed": {
			key: counting(), id: "golden-k1", input: goldenSigned, length: 158,
			wire: goldenSigned + "6001" + "6a09676f6c64656e2d6b31" + "7220" +
				"d0fbc9489f1f0bc8f5c33820fff40d42bd49108faa927c7af238ac96c09cad61",
		},
		"a field of a newer schema": {
			key: counting(), id: "golden-k1", input: goldenFuture, inputUnknown: "a01f2a", length: 161,
			wire: goldenFuture + "6001" + "6a09676f6c64656e2d6b31" + "7220" +
				"04d78c1f21c8eb79f2d5dd2f4586b66d7f33f1a460ea4a45b60518fd37f14862" + "a01f2a",
		},
		"seq 0": {
			key: strings.Repeat("\x01", 32), id: "k1", input: plainSigned, length: 134,
			wire: plainSigned + "6001" + "6a026b31" + "7220" +
				"99da73578aca8cfada0c6619ba0e860067eb74aafe85d606d4de043c438a6a94",
		},
	} {
		t.Run(name, func(t *testing.T) {
			ring := keyring(t, tt.id, tt.key)
			in := decode(t, fromHex(t, tt.input+tt.inputUnknown))
			before := proto.CloneOf(in)
			got := hex.EncodeToString(encode(t, sign(t, signer(t, ring, tt.id), in)))
			if got != tt.wire || len(got) != 2*tt.length {
				t.Errorf("signed\n%s\nwant\n%s", got, tt.wire)
			}
			if diff := cmp.Diff(before, in, protocmp.Transform()); diff != "" {
				t.Errorf("Sign changed its argument: %s", diff)
			}
			if got := ring.Verify(decode(t, fromHex(t, tt.wire))); got != intent.OK {
				t.Errorf("Verify = %s", got)
			}
			if got := ring.Verify(in); got != intent.UnsignedIntent {
				t.Errorf("Verify of the unsigned intent = %s", got)
			}
		})
	}
}

// The intent of the last golden, made by Builder.
func TestSignBuilt(t *testing.T) {
	in, err := toolBuilder().Build()
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(encode(t, in)); got != plainSigned {
		t.Errorf("built   %s\nwant %s", got, plainSigned)
	}
}

func full() *beamagentspb.ToolIntent {
	in := &beamagentspb.ToolIntent{
		IntentId: "id", EntityKey: []byte("k"), Seq: 7, StepIndex: 2, ToolName: "t", ArgsJson: "{}",
		CreatedAtMs: 1000, ExpiresAtMs: 2000, Attempt: 1, Kind: 1, TraceId: []byte("0123456789abcdef"),
	}
	in.ProtoReflect().SetUnknown([]byte("\xa0\x1f\x2a"))
	return in
}

func TestVerifyOrder(t *testing.T) {
	ring := keyring(t, "k1", keyOne, "also k1", keyOne, "k2", keyTwo)
	signed := sign(t, signer(t, ring, "k1"), full())
	for name, tt := range map[string]struct {
		change func(*beamagentspb.ToolIntent)
		want   intent.Outcome
	}{
		"ok":                                 {func(*beamagentspb.ToolIntent) {}, intent.OK},
		"no signature":                       {func(in *beamagentspb.ToolIntent) { in.Signature = nil }, intent.UnsignedIntent},
		"empty signature, unknown key":       {func(in *beamagentspb.ToolIntent) { in.Signature, in.SigningKeyId = []byte{}, "k3" }, intent.UnsignedIntent},
		"no signature, unknown scheme":       {func(in *beamagentspb.ToolIntent) { in.Signature, in.SignatureScheme = nil, 9 }, intent.UnsignedIntent},
		"no scheme":                          {func(in *beamagentspb.ToolIntent) { in.SignatureScheme = 0 }, intent.BadSignature},
		"unknown scheme":                     {func(in *beamagentspb.ToolIntent) { in.SignatureScheme = 2 }, intent.BadSignature},
		"unknown scheme, unknown key":        {func(in *beamagentspb.ToolIntent) { in.SignatureScheme, in.SigningKeyId = -1, "k3" }, intent.BadSignature},
		"unknown key":                        {func(in *beamagentspb.ToolIntent) { in.SigningKeyId = "k3" }, intent.UnknownSigningKey},
		"no key id":                          {func(in *beamagentspb.ToolIntent) { in.SigningKeyId = "" }, intent.UnknownSigningKey},
		"unknown key, bad signature":         {func(in *beamagentspb.ToolIntent) { in.SigningKeyId, in.Signature = "k3", []byte("x") }, intent.UnknownSigningKey},
		"another key":                        {func(in *beamagentspb.ToolIntent) { in.SigningKeyId = "k2" }, intent.BadSignature},
		"another id of the same key":         {func(in *beamagentspb.ToolIntent) { in.SigningKeyId = "also k1" }, intent.OK},
		"short signature":                    {func(in *beamagentspb.ToolIntent) { in.Signature = in.Signature[:31] }, intent.BadSignature},
		"long signature":                     {func(in *beamagentspb.ToolIntent) { in.Signature = append(in.Signature, 0) }, intent.BadSignature},
		"text that is not UTF-8":             {func(in *beamagentspb.ToolIntent) { in.ToolName = "\xff" }, intent.BadSignature},
		"unsigned, text that is not UTF-8":   {func(in *beamagentspb.ToolIntent) { in.ToolName, in.Signature = "\xff", nil }, intent.UnsignedIntent},
		"an unknown field more":              {func(in *beamagentspb.ToolIntent) { addUnknown(in, "\xa8\x1f\x01") }, intent.BadSignature},
		"no unknown field":                   {func(in *beamagentspb.ToolIntent) { in.ProtoReflect().SetUnknown(nil) }, intent.BadSignature},
		"an unknown field of number 12 more": {func(in *beamagentspb.ToolIntent) { addUnknown(in, "\x62\x01a") }, intent.BadSignature},
	} {
		t.Run(name, func(t *testing.T) {
			in := proto.CloneOf(signed)
			tt.change(in)
			before := proto.CloneOf(in)
			if got := ring.Verify(in); got != tt.want {
				t.Errorf("Verify = %s, want %s", got, tt.want)
			}
			if !proto.Equal(before, in) {
				t.Error("Verify changed its argument")
			}
		})
	}
	if got := ring.Verify(nil); got != intent.UnsignedIntent {
		t.Errorf("Verify(nil) = %s", got)
	}
	for name, empty := range map[string]*intent.Keyring{"nil": nil, "zero": new(intent.Keyring)} {
		if got := empty.Verify(signed); got != intent.UnknownSigningKey {
			t.Errorf("Verify with a %s keyring = %s", name, got)
		}
	}
}

func addUnknown(in *beamagentspb.ToolIntent, field string) {
	r := in.ProtoReflect()
	r.SetUnknown(append(slices.Clone(r.GetUnknown()), field...))
}

// A change of any signed field is found, also of fields that are added to the schema later.
func TestVerifyFindsChangedFields(t *testing.T) {
	ring := keyring(t, "k1", keyOne)
	s := signer(t, ring, "k1")
	for name, in := range map[string]*beamagentspb.ToolIntent{"full": full(), "empty": {}} {
		signed := sign(t, s, in)
		fields := signed.ProtoReflect().Descriptor().Fields()
		if fields.Len() < 14 {
			t.Fatalf("%d fields", fields.Len())
		}
		for i := range fields.Len() {
			field := fields.Get(i)
			changed := proto.CloneOf(signed)
			r := changed.ProtoReflect()
			switch field.Kind() {
			case protoreflect.StringKind:
				r.Set(field, protoreflect.ValueOfString(r.Get(field).String()+"x"))
			case protoreflect.BytesKind:
				r.Set(field, protoreflect.ValueOfBytes(append([]byte("x"), r.Get(field).Bytes()...)))
			case protoreflect.Int64Kind:
				r.Set(field, protoreflect.ValueOfInt64(r.Get(field).Int()+1))
			case protoreflect.Uint32Kind:
				r.Set(field, protoreflect.ValueOfUint32(uint32(r.Get(field).Uint())+1))
			case protoreflect.EnumKind:
				r.Set(field, protoreflect.ValueOfEnum(r.Get(field).Enum()+1))
			default:
				t.Fatalf("field %s: teach this test the kind %v", field.Name(), field.Kind())
			}
			want := intent.BadSignature
			if field.Name() == "signing_key_id" {
				want = intent.UnknownSigningKey
			}
			if got := ring.Verify(changed); got != want {
				t.Errorf("%s intent with another %s: %s, want %s", name, field.Name(), got, want)
			}
			if number := field.Number(); number >= 12 && number <= 14 || !r.Has(field) {
				continue
			}
			r.Clear(field)
			if signed.ProtoReflect().Has(field) {
				if got := ring.Verify(changed); got != intent.BadSignature {
					t.Errorf("%s intent without %s: %s", name, field.Name(), got)
				}
			}
		}
	}
}

// Every bit of a signed intent on the wire.
func TestVerifyFindsFlippedBits(t *testing.T) {
	ring := keyring(t, "k1", keyOne)
	wire := encode(t, sign(t, signer(t, ring, "k1"), full()))
	unreadable := 0
	for bit := range 8 * len(wire) {
		flipped := bytes.Clone(wire)
		flipped[bit/8] ^= 1 << (bit % 8)
		in := new(beamagentspb.ToolIntent)
		if proto.Unmarshal(flipped, in) != nil {
			unreadable++
			continue
		}
		if got := ring.Verify(in); got == intent.OK {
			t.Errorf("bit %d of byte %d flipped: %s", bit%8, bit/8, got)
		}
	}
	if unreadable > 4*len(wire) {
		t.Errorf("%d of %d changes could not be read at all", unreadable, 8*len(wire))
	}
}

// The signature covers the message, however it was encoded.
func TestVerifyOtherEncodings(t *testing.T) {
	ring := keyring(t, "k1", keyOne)
	in := full()
	in.Attempt = 0
	wire := encode(t, sign(t, signer(t, ring, "k1"), in))
	var fields [][]byte
	for rest := wire; len(rest) > 0; {
		_, _, n := protowire.ConsumeField(rest)
		fields = append(fields, rest[:n])
		rest = rest[n:]
	}
	backwards := slices.Clone(fields)
	slices.Reverse(backwards)
	for name, other := range map[string][]byte{
		"as it is":               wire,
		"fields in disorder":     bytes.Join(backwards, nil),
		"explicit zero":          append(bytes.Clone(wire), 9<<3, 0),
		"repeated scalar":        append([]byte{3 << 3, 99}, wire...),
		"overlong varint":        append(bytes.Clone(wire), 3<<3, 0x87, 0x80, 0x00),
		"unknown field in front": append(bytes.Clone(fields[len(fields)-1]), bytes.Join(fields[:len(fields)-1], nil)...),
	} {
		if got := ring.Verify(decode(t, other)); got != intent.OK {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A signature of this program covers fields that it does not know.
func TestSignCoversUnknownFields(t *testing.T) {
	ring := keyring(t, "k1", keyOne)
	s := signer(t, ring, "k1")
	for name, unknown := range map[string]string{
		"number 500":                     "\xa0\x1f\x2a",
		"number 12 of another wire type": "\x62\x01a",
		"number 14 of another wire type": "\x70\x01",
	} {
		in := full()
		addUnknown(in, unknown)
		signed := decode(t, encode(t, sign(t, s, in)))
		if got := ring.Verify(signed); got != intent.OK {
			t.Errorf("%s: %s", name, got)
		}
		r := signed.ProtoReflect()
		r.SetUnknown(r.GetUnknown()[:len(r.GetUnknown())-len(unknown)])
		if got := ring.Verify(signed); got != intent.BadSignature {
			t.Errorf("%s taken away: %s", name, got)
		}
	}
}

func TestSignRefuses(t *testing.T) {
	s := signer(t, keyring(t, "k1", keyOne), "k1")
	for name, in := range map[string]*beamagentspb.ToolIntent{
		"nil":            nil,
		"intent_id":      {IntentId: "\xff"},
		"tool_name":      {ToolName: "\xff"},
		"args_json":      {ArgsJson: "\xff"},
		"signing_key_id": {SigningKeyId: "\xff"},
	} {
		out, err := s.Sign(in)
		if out != nil || !errors.Is(err, intent.ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("Sign with a bad %s = %v, %v", name, out, err)
		}
	}
}

func TestSignWithoutKey(t *testing.T) {
	for name, s := range map[string]*intent.Signer{"nil": nil, "zero": new(intent.Signer)} {
		for _, in := range []*beamagentspb.ToolIntent{full(), nil} {
			if out, err := s.Sign(in); out != nil || !errors.Is(err, intent.ErrUnknownKey) {
				t.Errorf("Sign with a %s signer = %v, %v", name, out, err)
			}
		}
	}
	for name, ring := range map[string]*intent.Keyring{"nil": nil, "zero": new(intent.Keyring)} {
		if s, err := intent.NewSigner(ring, "k1"); s != nil || !errors.Is(err, intent.ErrUnknownKey) {
			t.Errorf("NewSigner with a %s keyring = %v, %v", name, s, err)
		}
	}
}

// Every text of the schema is looked at, also one that comes later.
func TestCheckText(t *testing.T) {
	if err := intent.CheckText(full()); err != nil {
		t.Error(err)
	}
	if err := intent.CheckText(nil); !errors.Is(err, intent.ErrInvalid) {
		t.Errorf("nil: %v", err)
	}
	fields := full().ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		in := full()
		switch field.Kind() {
		case protoreflect.StringKind:
			in.ProtoReflect().Set(field, protoreflect.ValueOfString("a\xffb"))
			err := intent.CheckText(in)
			if !errors.Is(err, intent.ErrInvalid) || !strings.Contains(err.Error(), string(field.Name())) {
				t.Errorf("%s: %v", field.Name(), err)
			}
		case protoreflect.BytesKind:
			in.ProtoReflect().Set(field, protoreflect.ValueOfBytes([]byte("a\xffb")))
			if err := intent.CheckText(in); err != nil {
				t.Errorf("%s holds any bytes: %v", field.Name(), err)
			}
		}
	}
}

// The signed copy has every field of the schema, and shares no memory with the original.
func TestSignCopies(t *testing.T) {
	in := full()
	r := in.ProtoReflect()
	for i := range r.Descriptor().Fields().Len() {
		if field := r.Descriptor().Fields().Get(i); !r.Has(field) && (field.Number() < 12 || field.Number() > 14) {
			t.Fatalf("full has no %s", field.Name())
		}
	}
	got := sign(t, signer(t, keyring(t, "k1", keyOne), "k1"), in)
	want := proto.CloneOf(in)
	want.SignatureScheme, want.SigningKeyId, want.Signature = beamagentspb.ToolIntent_HMAC_SHA256, "k1", reference(t, in, keyOne)
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	for _, part := range [][]byte{in.EntityKey, in.TraceId, in.ProtoReflect().GetUnknown()} {
		clear(part)
	}
	for _, part := range []*[]byte{&got.EntityKey, &got.TraceId, &got.Signature} {
		*part = append(*part, "more"...)
		*part = (*part)[:len(*part)-4]
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("the copy shares memory: %s", diff)
	}
}

func TestSignAgain(t *testing.T) {
	ring := keyring(t, "old", keyOne, "new", keyTwo)
	once := sign(t, signer(t, ring, "old"), full())
	twice := sign(t, signer(t, ring, "new"), once)
	direct := sign(t, signer(t, ring, "new"), full())
	if diff := cmp.Diff(direct, twice, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	twice.EntityKey[0], twice.Signature[0] = 'x', twice.Signature[0]^1
	if got := ring.Verify(once); got != intent.OK {
		t.Errorf("the copy shares memory with its original: %s", got)
	}
}

func TestRotation(t *testing.T) {
	old, both, after := keyring(t, "2024", keyOne), keyring(t, "2024", keyOne, "2025", keyTwo), keyring(t, "2025", keyTwo)
	first, second := sign(t, signer(t, old, "2024"), full()), sign(t, signer(t, both, "2025"), full())
	for _, tt := range []struct {
		ring          *intent.Keyring
		first, second intent.Outcome
	}{
		{old, intent.OK, intent.UnknownSigningKey},
		{both, intent.OK, intent.OK},
		{after, intent.UnknownSigningKey, intent.OK},
	} {
		if got := tt.ring.Verify(first); got != tt.first {
			t.Errorf("%v: signed with the old key: %s, want %s", tt.ring, got, tt.first)
		}
		if got := tt.ring.Verify(second); got != tt.second {
			t.Errorf("%v: signed with the new key: %s, want %s", tt.ring, got, tt.second)
		}
	}
	if _, err := intent.NewSigner(after, "2024"); !errors.Is(err, intent.ErrUnknownKey) {
		t.Errorf("NewSigner with a key that was dropped: %v", err)
	}
	if _, err := intent.NewSigner(nil, "2024"); !errors.Is(err, intent.ErrUnknownKey) {
		t.Errorf("NewSigner without a keyring: %v", err)
	}
}

func TestSignLarge(t *testing.T) {
	ring := keyring(t, "k1", keyOne)
	in := full()
	in.ArgsJson = `"` + strings.Repeat("é", 1<<19) + `"`
	signed := sign(t, signer(t, ring, "k1"), in)
	if got := ring.Verify(signed); got != intent.OK {
		t.Errorf("Verify = %s", got)
	}
	signed.ArgsJson = strings.TrimSuffix(signed.ArgsJson, `"`) + `x`
	if got := ring.Verify(signed); got != intent.BadSignature {
		t.Errorf("Verify of changed args = %s", got)
	}
}

func TestModes(t *testing.T) {
	outcomes := []intent.Outcome{intent.OK, intent.UnsignedIntent, intent.BadSignature, intent.UnknownSigningKey}
	for _, tt := range []struct {
		mode     intent.Mode
		verifies bool
		accepts  []intent.Outcome
		err      error
	}{
		{"", true, outcomes[:1], intent.ErrMode}, // off must be written
		{intent.ModeOff, false, outcomes, nil},
		{intent.ModePermissive, true, outcomes[:2], nil},
		{intent.ModeRequire, true, outcomes[:1], nil},
		{"Require", true, outcomes[:1], intent.ErrMode},
	} {
		var accepts []intent.Outcome
		for _, o := range outcomes {
			if tt.mode.Accepts(o) {
				accepts = append(accepts, o)
			}
		}
		if !slices.Equal(accepts, tt.accepts) || tt.mode.Verifies() != tt.verifies {
			t.Errorf("mode %q accepts %v, verifies %v", tt.mode, accepts, tt.mode.Verifies())
		}
		if err := tt.mode.Validate(); !errors.Is(err, tt.err) {
			t.Errorf("mode %q: %v, want %v", tt.mode, err, tt.err)
		}
	}
}

func TestSignParallel(t *testing.T) {
	ring := keyring(t, "k1", keyOne, "k2", keyTwo)
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			s, err := intent.NewSigner(ring, []string{"k1", "k2"}[n%2])
			if err != nil {
				t.Error(err)
				return
			}
			for i := range 100 {
				in := full()
				in.Seq, in.ArgsJson = int64(i), strings.Repeat("x", n*i)
				signed, err := s.Sign(in)
				if err != nil || ring.Verify(signed) != intent.OK {
					t.Errorf("signer %d: %v, %v", n, err, ring.Verify(signed))
					return
				}
			}
		})
	}
	wg.Wait()
}
