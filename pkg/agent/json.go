package agent

import (
	"encoding/json"
	"fmt"

	strictjson "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/beamagents/beamagents-go/pkg/canonjson"
)

// The options are those of encoding/json, so that tags and methods of a user's types have their
// usual meaning. But three things are errors that encoding/json accepts: text that is not UTF-8,
// duplicate names in an object, and names in another letter case.
var (
	encodeOptions = strictjson.JoinOptions(jsonv1.DefaultOptionsV1(),
		jsontext.AllowInvalidUTF8(false), jsontext.EscapeForHTML(false), jsontext.EscapeForJS(false))
	decodeOptions = strictjson.JoinOptions(jsonv1.DefaultOptionsV1(),
		jsontext.AllowInvalidUTF8(false), jsontext.AllowDuplicateNames(false), strictjson.MatchCaseInsensitiveNames(false))
)

// encodeJSON returns the canonical JSON of v. A json.RawMessage stands for its own text.
func encodeJSON(v any) ([]byte, error) {
	text, ok := v.(json.RawMessage)
	if !ok {
		var err error
		if text, err = strictjson.Marshal(v, encodeOptions); err != nil {
			return nil, fmt.Errorf("encode %T as JSON: %s", v, err.Error()) // only the text: the error may be of v's own type
		}
	}
	return canonjson.Canonicalize(nil, text)
}

func decodeJSON(b []byte, v any) error {
	if err := strictjson.Unmarshal(b, v, decodeOptions); err != nil {
		return fmt.Errorf("decode JSON into %T: %w", v, err)
	}
	return nil
}
