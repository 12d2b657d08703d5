// Package golden holds frozen encodings of every wire message and of the keyed state of the
// runtime. Each has the value that a reader must decode.
//
// It is test data for the packages of this module, and for everyone who writes bindings of the
// schema in another language, who can read the files without this package.
//
// # Behaviour
//
// A folder v<N> holds the blobs of version N of the stored messages. A blob is
// two files: NAME.binpb, the encoding, which never changes, and NAME.txtpb, the
// value in protobuf text format:
//
//	# proto-message: beam_agents.v1.ToolIntent
//	# Signed, with a field of a newer schema.
//	# unknown: a01f2a
//
//	intent_id: "..."
//
// The first line names the type, and the second line describes the blob. Each line "# unknown:
// HEX" or "# unknown PATH: HEX" holds the unknown fields of the message, or of the message at a
// path such as pending[0] or tool_result: their complete bytes, with tags, in the order in which
// they came. A path has one step per field, joined by dots.
//
// MANIFEST.sha256 freezes both files. While N is the current version, blobs may be added: define
// a blob in golden/generate and run `go run ./golden/generate`.
//
// # Limits
//
// A reader must decode the value. A writer need not write the same bytes: some blobs are
// deliberately not canonical, and say so in their second line.
//
// # Differences from prototext
//
// Prototext cannot write unknown fields; the text form of a blob can.
package golden

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/beamagents/beamagents-go/golden/internal/textform"
	_ "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1" // registers the types that blobs name
	_ "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

//go:embed v1/*.binpb v1/*.txtpb
var versions embed.FS

// Blob is a frozen message.
type Blob struct {
	// Name is the version folder and the file name without its extension, such as
	// "v1/tool_intent_signed".
	Name string
	// Message is the full name of the type, such as "beam_agents.v1.ToolIntent".
	Message protoreflect.FullName
	// Bytes is the encoding. The caller owns it.
	Bytes []byte
	// Text is the text file: comment lines and the expected value.
	Text string
}

// Blobs returns all blobs, sorted by name.
func Blobs() ([]Blob, error) {
	files, err := fs.Glob(versions, "v*/*.binpb")
	if err != nil {
		return nil, fmt.Errorf("golden: %w", err)
	}
	blobs := make([]Blob, 0, len(files))
	for _, file := range files {
		b, err := Lookup(strings.TrimSuffix(file, ".binpb"))
		if err != nil {
			return nil, err
		}
		blobs = append(blobs, b)
	}
	return blobs, nil
}

// Lookup returns the blob with a name. The error is fs.ErrNotExist if it does not exist.
func Lookup(name string) (Blob, error) { return read(versions, name) }

func read(fsys fs.FS, name string) (Blob, error) {
	data, err := fs.ReadFile(fsys, name+".binpb")
	if err != nil {
		return Blob{}, fmt.Errorf("golden: %w", err)
	}
	text, err := fs.ReadFile(fsys, name+".txtpb")
	if err != nil {
		return Blob{}, fmt.Errorf("golden: %w", err)
	}
	message, err := textform.MessageName(text)
	if err != nil {
		return Blob{}, fmt.Errorf("golden: %s: %w", path.Base(name), err)
	}
	return Blob{Name: name, Message: message, Bytes: data, Text: string(text)}, nil
}

// Value reads Text. It returns the message, of the generated type, that decoding Bytes must give,
// with its unknown fields.
func (b Blob) Value() (proto.Message, error) {
	m, err := textform.Unmarshal([]byte(b.Text))
	if err != nil {
		return nil, fmt.Errorf("golden: %s: %w", b.Name, err)
	}
	return m, nil
}
