package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/canonjson"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	"github.com/beamagents/beamagents-go/pkg/intent"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func newIntent() *cobra.Command {
	cmd := group(
		&cobra.Command{Use: "intent", Short: "Identities, canonical JSON and signatures of ToolIntents"},
		newIntentID(), newTraceID(), newSpanID(), newCacheKey(), newCanonical(), newSign(), newVerify(),
	)
	for _, c := range cmd.Commands() {
		c.DisableFlagsInUseLine = true // Use contains them
	}
	return cmd
}

// activationFlags are the flags that identify an activation.
type activationFlags struct {
	key hexBytes
	seq sequence
}

// add adds the flags to cmd. All of them are required, because a default would silently give the
// identity of something else.
func (a *activationFlags) add(cmd *cobra.Command) {
	cmd.Flags().Var(&a.key, "key-hex", "entity key in hex; may be empty")
	cmd.Flags().Var(&a.seq, "seq", "sequence number of the activation, from 0")
	require(cmd, "key-hex", "seq")
}

func require(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // cannot happen: the flag exists
		}
	}
}

// hexBytes is a flag for bytes in hexadecimal.
type hexBytes []byte

func (b *hexBytes) String() string { return hex.EncodeToString(*b) }

func (b *hexBytes) Type() string { return "hex" }

func (b *hexBytes) Set(s string) (err error) {
	*b, err = hex.DecodeString(s)
	return err
}

// sequence is a flag for an int64 of at least 0.
type sequence int64

func (n *sequence) String() string { return strconv.FormatInt(int64(*n), 10) }

func (n *sequence) Type() string { return "int" }

func (n *sequence) Set(s string) error {
	v, err := strconv.ParseInt(s, 10, 64)
	if err == nil && v < 0 {
		err = errors.New("below 0")
	}
	*n = sequence(v)
	return err
}

func newIntentID() *cobra.Command {
	var a activationFlags
	var step uint32
	cmd := &cobra.Command{
		Use:   "id --key-hex HEX --seq N --step N",
		Short: "Print the id of an intent",
		Example: `  $ beamagents intent id --key-hex 656e746974792d31 --seq 7 --step 2
  ae132720-ef00-5246-b526-5b18bec03dd0`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printLine(cmd, intent.ID(a.key, int64(a.seq), step))
		},
	}
	a.add(cmd)
	cmd.Flags().Uint32Var(&step, "step", 0, "step of the activation at which it was staged, from 0")
	require(cmd, "step")
	return cmd
}

func newTraceID() *cobra.Command {
	var a activationFlags
	cmd := &cobra.Command{
		Use:   "trace-id --key-hex HEX --seq N",
		Short: "Print the trace id of an activation in hex",
		Example: `  $ beamagents intent trace-id --key-hex 656e746974792d31 --seq 7
  79734ee4e9db598ab4dad4ad43d01b84`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			id := intent.TraceID(a.key, int64(a.seq))
			return printLine(cmd, hex.EncodeToString(id[:]))
		},
	}
	a.add(cmd)
	return cmd
}

func newSpanID() *cobra.Command {
	var a activationFlags
	var role string
	var index uint32
	cmd := &cobra.Command{
		Use:   "span-id --key-hex HEX --seq N --role ROLE --index N",
		Short: "Print the id of a span in hex",
		Long: `Print the id of a span in hex.

ROLE is activation (index: the step at which the attempt began), timer (0), or the
name of an event type: TOOL_CALL (the number of the tool call), ERROR (0), LLM_CALL,
INTENT_EMITTED or SUSPENDED (the step of the event).`,
		Example: `  $ beamagents intent span-id --key-hex 6b --seq 0 --role LLM_CALL --index 0
  d8f49edb39065909`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !isRole(role) {
				return fmt.Errorf("--role %q is not a role of a span; see --help", role)
			}
			id := intent.SpanID(a.key, int64(a.seq), role, index)
			return printLine(cmd, hex.EncodeToString(id[:]))
		},
	}
	a.add(cmd)
	cmd.Flags().StringVar(&role, "role", "", "role of the span")
	cmd.Flags().Uint32Var(&index, "index", 0, "index within the role, from 0")
	require(cmd, "role", "index")
	return cmd
}

// isRole reports whether some span has that role. Without this check a misspelt role would get an
// id, too.
func isRole(role string) bool {
	t, known := pb.TraceEvent_EventType_value[role]
	return role == intent.RoleActivation || role == intent.RoleTimer ||
		known && intent.RoleOf(pb.TraceEvent_EventType(t)) == role
}

func newCacheKey() *cobra.Command {
	var a activationFlags
	var repeat, attempt uint32
	cmd := &cobra.Command{
		Use:   "cache-key --key-hex HEX --seq N [FILE]",
		Short: "Print the replay cache key of a model call",
		Long: `Print the replay cache key of a model call.

The input is a JSON object with the members model (text), messages, tools and params.
Without tools or params these are null.`,
		Example: `  $ echo '{"model": "m", "messages": ["hello"]}' | beamagents intent cache-key --key-hex 6b --seq 0
  65838dd85db9b53cc2412abea24434b343011fff24878f2f1253f6cb80d3f03c`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := readInput(cmd, args)
			if err != nil {
				return err
			}
			r, err := modelCall(text)
			if err != nil {
				return &dataError{err}
			}
			r.EntityKey, r.Seq, r.Repeat = a.key, int64(a.seq), repeat
			r.Attempt, r.Fresh = attempt, cmd.Flags().Changed("attempt")
			key, err := intent.CacheKey(r)
			if err != nil {
				return &dataError{err}
			}
			return printLine(cmd, key)
		},
	}
	a.add(cmd)
	cmd.Flags().Uint32Var(&repeat, "repeat", 0, "how many equal calls came before it since the start or the last resume")
	cmd.Flags().Uint32Var(&attempt, "attempt", 0, "of a call that asks for a fresh answer: the step at the last resume")
	return cmd
}

// modelCall reads the JSON document that describes a model call.
func modelCall(text []byte) (intent.CacheRequest, error) {
	// Canonicalize refuses input that encoding/json accepts, and says where the fault is.
	text, err := canonjson.Canonicalize(nil, text)
	if err != nil {
		return intent.CacheRequest{}, err
	}
	if text[0] != '{' {
		return intent.CacheRequest{}, errors.New("the input is not a JSON object")
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return intent.CacheRequest{}, err
	}
	var r intent.CacheRequest
	for _, name := range []string{"model", "messages"} {
		if _, ok := members[name]; !ok {
			return r, fmt.Errorf("the member %q is missing", name)
		}
	}
	for name, value := range members {
		switch name {
		case "model":
			if value[0] != '"' {
				return r, errors.New(`the member "model" is not text`)
			}
			if err := json.Unmarshal(value, &r.Model); err != nil {
				return r, err
			}
		case "messages":
			r.Messages = value
		case "tools":
			r.Tools = value
		case "params":
			r.Params = value
		default:
			return r, fmt.Errorf("the member %q is not valid: use model, messages, tools or params", name)
		}
	}
	return r, nil
}

func newCanonical() *cobra.Command {
	return &cobra.Command{
		Use:   "canonical [FILE]",
		Short: "Print the canonical form of a JSON text, without a newline",
		Example: `  $ echo '{"z": [1, 2.0], "a": 1e2}' | beamagents intent canonical
  {"a":100.0,"z":[1,2.0]}`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := readInput(cmd, args)
			if err != nil {
				return err
			}
			canonical, err := canonjson.Canonicalize(nil, text)
			if err != nil {
				return &dataError{err}
			}
			_, err = cmd.OutOrStdout().Write(canonical)
			return err
		},
	}
}

const keyringHelp = `REF is env:NAME or file:/PATH, an absolute one, of a keyring: a line id=KEY for each
key, KEY in base64. The exit status is 1 if the text of the keyring is bad, 2 if REF leads
to none.`

// loadKeyring reads a keyring. A malformed keyring is bad data. A reference that does not lead to
// a keyring is a wrong call.
func loadKeyring(ref string) (*intent.Keyring, error) {
	ring, err := intent.LoadKeyring(ref)
	if err != nil && !errors.Is(err, intent.ErrReference) {
		return nil, &dataError{err}
	}
	return ring, err
}

func newSign() *cobra.Command {
	var ref, keyID string
	var delimited bool
	cmd := &cobra.Command{
		Use:   "sign --keyring REF --key-id ID [--delimited] [FILE]",
		Short: "Sign ToolIntents",
		Long: `Sign ToolIntents: print each again, with a signature in place of any that it had.

The input is one encoded ToolIntent, or with --delimited any number of them, each
behind its length as a varint; so is the output. It stops, with exit status 1, at the
first that cannot be read or that has no intent_id, tool_name or entity_key. An empty
input is refused, too.

` + keyringHelp + ` It is 2, too, if the keyring has no key ID.`,
		Example: `  beamagents intent sign --keyring "file:$PWD/keys" --key-id k1 intent.binpb > signed.binpb
  beamagents intent sign --keyring env:KEYS --key-id k1 --delimited < intents > signed`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			ring, err := loadKeyring(ref)
			if err != nil {
				return err
			}
			signer, err := intent.NewSigner(ring, keyID)
			if err != nil {
				return err
			}
			input, err := openInput(cmd, args)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, input.Close()) }()
			out := bufio.NewWriter(cmd.OutOrStdout())
			defer func() { err = flush(out, err) }()
			err = eachIntent(liveReader{input, out}, delimited, func(p place, in *pb.ToolIntent) error {
				if field := missing(in); field != "" {
					return &dataError{fmt.Errorf("%s: ToolIntent.%s is empty; set it before the intent is signed", p.at(0), field)}
				}
				signed, err := signer.Sign(in)
				if err != nil {
					return &dataError{err}
				}
				b, err := proto.MarshalOptions{Deterministic: true}.Marshal(signed)
				if err != nil {
					return &dataError{err}
				}
				return writeFrame(out, b, delimited)
			})
			if _, bad := errors.AsType[*dataError](err); !input.some && (err == nil || bad) {
				return &dataError{errors.New("the input is empty; give the intent to sign")}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&ref, "keyring", "", "reference of the keyring: env:NAME or file:/PATH")
	cmd.Flags().StringVar(&keyID, "key-id", "", "id of the key to sign with")
	cmd.Flags().BoolVar(&delimited, "delimited", false, "each message comes behind its length as a varint")
	require(cmd, "keyring", "key-id")
	return cmd
}

func newVerify() *cobra.Command {
	var ref, mode string
	var delimited bool
	cmd := &cobra.Command{
		Use:   "verify --keyring REF [--mode MODE] [--delimited] [FILE]",
		Short: "Verify the signatures of ToolIntents",
		Long: `Verify the signatures of ToolIntents: print for each a line that is ok, unsigned_intent,
bad_signature or unknown_signing_key. The exit status is 1 if MODE refuses any of them:
require all but ok, permissive all but ok and unsigned_intent, off none.

The input is one encoded ToolIntent, or with --delimited any number of them, each
behind its length as a varint. It stops at the first that cannot be read, with exit
status 1. An empty input is one intent without any field, or with --delimited none; it is
reported on standard error.

` + keyringHelp,
		Example: `  beamagents intent verify --keyring "file:$PWD/keys" signed.binpb
  beamagents intent verify --keyring env:KEYS --mode permissive --delimited < intents`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			m := intent.Mode(mode)
			if err := m.Validate(); err != nil {
				return fmt.Errorf("--mode %q is not valid: use require, permissive or off", mode)
			}
			ring, err := loadKeyring(ref)
			if err != nil {
				return err
			}
			input, err := openInput(cmd, args)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, input.Close()) }()
			out := bufio.NewWriter(cmd.OutOrStdout())
			refused := false
			err = eachIntent(liveReader{input, out}, delimited, func(_ place, in *pb.ToolIntent) error {
				outcome := ring.Verify(in)
				refused = refused || !m.Accepts(outcome)
				_, err := fmt.Fprintln(out, outcome)
				return err
			})
			if err == nil && refused {
				err = &dataError{} // stdout says which intents failed
			}
			return input.noteEmpty(cmd, flush(out, err))
		},
	}
	cmd.Flags().StringVar(&ref, "keyring", "", "reference of the keyring: env:NAME or file:/PATH")
	cmd.Flags().StringVar(&mode, "mode", string(intent.ModeRequire), "require, permissive or off")
	cmd.Flags().BoolVar(&delimited, "delimited", false, "each message comes behind its length as a varint")
	require(cmd, "keyring")
	return cmd
}

// missing returns the name of the first field that every intent has and in lacks, or "". A
// signature on an intent without them would vouch for something that cannot be executed.
func missing(in *pb.ToolIntent) string {
	switch {
	case in.GetIntentId() == "":
		return "intent_id"
	case len(in.GetEntityKey()) == 0:
		return "entity_key"
	case in.GetToolName() == "":
		return "tool_name"
	}
	return ""
}

// eachIntent calls f with each ToolIntent of the input, in order, until f returns an error.
func eachIntent(in io.Reader, delimited bool, f func(p place, in *pb.ToolIntent) error) error {
	return eachFrame(in, delimited, func(p place, frame []byte) error {
		m := new(pb.ToolIntent)
		if proto.Unmarshal(frame, m) != nil {
			offset, fault := deadletter.Locate(frame, m)
			return &dataError{fmt.Errorf("%s: %s", p.at(offset), fault)}
		}
		return f(p, m)
	})
}

// readInput reads all of FILE or standard input.
func readInput(cmd *cobra.Command, args []string) (b []byte, err error) {
	input, err := openInput(cmd, args)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, input.Close()) }()
	return io.ReadAll(input)
}

func printLine(cmd *cobra.Command, text string) error {
	_, err := fmt.Fprintln(cmd.OutOrStdout(), text)
	return err
}
