package events

import (
	"io"
	"math"
	"reflect"
	"strconv"

	"github.com/beamagents/beamagents-go/pkg/internal/jsontoken"
)

// Projection is the flat view of an envelope: the same 17 columns for every type. A column
// that an event does not have is nil. The fields are in the order in which they are written.
type Projection struct {
	// DataJSON equals PayloadJSON. It is nil for the 11 types whose payload is completely
	// in the other columns.
	DataJSON *string `wire:"data_json,null"`
	// Error is the message of the type error.
	Error *string `wire:"error,null"`
	// ErrorKindJSON is the canonical text of the reason why a tool failed.
	ErrorKindJSON *string `wire:"error_kind_json,null"`
	// EventType is the type of the envelope.
	EventType string `wire:"event_type"`
	// ExitCode is the exit code of a tool. For a subagent it is 0 for success, otherwise 1.
	ExitCode *int32 `wire:"exit_code,null"`
	// MetadataJSON is the canonical text of the metadata.
	MetadataJSON *string `wire:"metadata_json,null"`
	// PayloadJSON is the canonical text of the payload.
	PayloadJSON string `wire:"payload_json"`
	// Prompt is the prompt of a run or a plan, or a subagent's description.
	Prompt *string `wire:"prompt,null"`
	// Text is what was said: a delta, an answer, a subagent's session or state.
	Text *string `wire:"text,null"`
	// ToolID is the id of a tool call or of a subagent's task.
	ToolID *string `wire:"tool_id,null"`
	// ToolName is the name of a tool or a subagent.
	ToolName *string `wire:"tool_name,null"`
	// ToolOutput is the output of a tool or a subagent.
	ToolOutput *string `wire:"tool_output,null"`
	// TotalTokens is the total of a turn or a run.
	TotalTokens *uint64 `wire:"total_tokens,null"`
	// Turn is the number of the turn.
	Turn *uint64 `wire:"turn,null"`
	// VerificationSummaryJSON is the canonical text of the member verification_summary,
	// whatever its value is.
	VerificationSummaryJSON *string `wire:"verification_summary_json,null"`
	// VerificationSummaryText is the summary in one line, if that member is a
	// [VerificationSummary].
	VerificationSummaryText *string `wire:"verification_summary_text,null"`
	// Version is EnvelopeVersion.
	Version uint16 `wire:"version"`
}

// projected says which columns the payload of a type fills.
type projected struct {
	noData  bool // the payload is completely in other columns than DataJSON
	sources []source
}

// source is a member of the payload and the function that puts it into its column. A member
// that is missing is passed as a Value without text.
type source struct {
	name string
	put  func(*row, Value)
}

// row is a projection whose columns of JSON are still values: their text may be large.
type row struct {
	Projection
	payload   Value
	hasData   bool  // DataJSON is the payload too
	metadata  Value // null if there is no metadata
	errorKind Value // without text if there is no error kind
	summary   Value // without text if there is no summary
}

// maxSources is the largest number of sources that a type has.
const maxSources = 5

// projections is the table of the protocol. A type that is not in it fills only the columns
// that do not depend on the type, such as DataJSON.
var projections = map[string]projected{
	EventAgentStart:           {noData: true, sources: []source{{"prompt", toPrompt}}},
	EventPlanningStart:        {noData: true, sources: []source{{"prompt", toPrompt}}},
	EventTurnStart:            {noData: true, sources: []source{{"turn", toTurn}}},
	EventTextDelta:            {noData: true, sources: []source{{"text", toText}}},
	EventReasoningDelta:       {noData: true, sources: []source{{"text", toText}}},
	EventToolStart:            {noData: true, sources: []source{{"id", toToolID}, {"name", toToolName}}},
	EventToolInputDelta:       {noData: true, sources: []source{{"id", toToolID}, {"delta", toText}}},
	EventToolOutputDelta:      {noData: true, sources: []source{{"id", toToolID}, {"name", toToolName}, {"delta", toText}}},
	EventTurnEnd:              {noData: true, sources: []source{{"turn", toTurn}, {"usage", toTotalTokens}}},
	EventAgentEnd:             {noData: true, sources: []source{{"text", toText}, {"usage", toTotalTokens}, {"verification_summary", toVerificationSummary}}},
	EventError:                {noData: true, sources: []source{{"message", toError}}},
	EventToolExecutionStart:   {sources: []source{{"id", toToolID}, {"name", toToolName}}},
	EventToolRequestBound:     {sources: []source{{"tool_id", toToolID}, {"tool_name", toToolName}}},
	EventConfirmationRequired: {sources: []source{{"tool_id", toToolID}, {"tool_name", toToolName}}},
	EventPermissionDenied:     {sources: []source{{"tool_id", toToolID}, {"tool_name", toToolName}}},
	EventConfirmationReceived: {sources: []source{{"tool_id", toToolID}}},
	EventConfirmationTimeout:  {sources: []source{{"tool_id", toToolID}}},
	EventToolEnd:              {sources: []source{{"id", toToolID}, {"name", toToolName}, {"output", toToolOutput}, {"exit_code", toExitCode}, {"error_kind", toErrorKind}}},
	EventSubagentStart:        {sources: []source{{"task_id", toToolID}, {"agent", toToolName}, {"session_id", toText}, {"description", toPrompt}}},
	EventSubagentProgress:     {sources: []source{{"task_id", toToolID}, {"session_id", toText}, {"status", afterText}}},
	EventSubagentEnd:          {sources: []source{{"task_id", toToolID}, {"agent", toToolName}, {"session_id", toText}, {"output", toToolOutput}, {"success", toSuccess}}},
}

func toError(p *row, v Value)      { p.Error = v.strOrNil() }
func toPrompt(p *row, v Value)     { p.Prompt = v.strOrNil() }
func toText(p *row, v Value)       { p.Text = v.strOrNil() }
func toToolID(p *row, v Value)     { p.ToolID = v.strOrNil() }
func toToolName(p *row, v Value)   { p.ToolName = v.strOrNil() }
func toToolOutput(p *row, v Value) { p.ToolOutput = v.strOrNil() }
func toTurn(p *row, v Value)       { p.Turn = v.uint64OrNil() }

func toTotalTokens(p *row, v Value) {
	total, _ := v.Get("total_tokens")
	p.TotalTokens = total.uint64OrNil()
}

func toExitCode(p *row, v Value) {
	if i, ok := v.Int64(); ok && math.MinInt32 <= i && i <= math.MaxInt32 {
		p.ExitCode = new(int32(i))
	}
}

func toErrorKind(p *row, v Value) {
	if !v.IsNull() {
		p.errorKind = v
	}
}

// toSuccess turns the success of a subagent into an exit code. A member exit_code of its
// payload is ignored.
func toSuccess(p *row, v Value) {
	if success, ok := v.Bool(); ok {
		p.ExitCode = new(int32(1))
		if success {
			*p.ExitCode = 0
		}
	}
}

// afterText appends a second string to the text. If one of the two is missing, the column is
// nil.
func afterText(p *row, v Value) {
	status, ok := v.Str()
	if p.Text == nil || !ok {
		p.Text = nil
		return
	}
	p.Text = new(*p.Text + ": " + status)
}

func toVerificationSummary(p *row, v Value) {
	if v.text == "" {
		return
	}
	p.summary = v
	if summary, ok := summaryOf(v); ok {
		p.VerificationSummaryText = new(summary.Text())
	}
}

func (v Value) strOrNil() *string {
	if s, ok := v.Str(); ok {
		return &s
	}
	return nil
}

func (v Value) uint64OrNil() *uint64 {
	if u, ok := v.Uint64(); ok {
		return &u
	}
	return nil
}

// Project returns the flat view of the envelope. It accepts a payload of any shape: a column
// whose member is missing or has another type is nil.
func (e Envelope) Project() Projection {
	r := e.row()
	p := r.Projection
	p.PayloadJSON = r.payload.JSON()
	if r.hasData {
		p.DataJSON = new(p.PayloadJSON)
	}
	if !r.metadata.IsNull() {
		p.MetadataJSON = new(r.metadata.JSON())
	}
	if r.errorKind.text != "" {
		p.ErrorKindJSON = new(r.errorKind.JSON())
	}
	if r.summary.text != "" {
		p.VerificationSummaryJSON = new(r.summary.JSON())
	}
	return p
}

// WriteProjection writes to w what [Projection.AppendJSON] appends for the projection of the
// envelope. It writes pieces of a few KiB and never holds the whole text of a column of
// JSON, so that the projection of a large event needs little memory of its own. The error is
// that of w.
func (e Envelope) WriteProjection(w io.Writer) error {
	var err error
	o := output{text: make([]byte, 0, 2*pieceBytes), spill: func(piece []byte) {
		if err == nil {
			_, err = w.Write(piece)
		}
	}}
	r := e.row()
	var c canonicalizer
	column := func(v Value, some bool) func(*output) {
		if !some {
			return nil
		}
		return func(o *output) {
			o.text = append(o.text, '"')
			inner := output{spill: func(piece []byte) {
				o.text = jsontoken.AppendEscaped(o.text, piece)
				o.hand(pieceBytes)
			}}
			c.write(v, &inner)
			inner.hand(0)
			o.text = append(o.text, '"')
		}
	}
	r.write(&o, jsonColumns{
		data:      column(r.payload, r.hasData),
		errorKind: column(r.errorKind, r.errorKind.text != ""),
		metadata:  column(r.metadata, !r.metadata.IsNull()),
		payload:   column(r.payload, true),
		summary:   column(r.summary, r.summary.text != ""),
	})
	o.hand(0)
	return err
}

func (e Envelope) row() row {
	rule := projections[e.Type]
	r := row{
		Projection: Projection{Version: EnvelopeVersion, EventType: e.Type},
		payload:    e.Payload, hasData: !rule.noData, metadata: e.Metadata,
	}
	var names, found [maxSources]string
	for i, s := range rule.sources {
		names[i] = s.name
	}
	n := len(rule.sources)
	if n > 0 && e.Payload.members(names[:n], found[:n]) {
		for i, s := range rule.sources {
			s.put(&r, Value{found[i], e.Payload.deep, e.Payload.canonical})
		}
	}
	return r
}

// ProjectEvent returns the projection of the envelope that [ToEnvelope] returns. Errors are
// those of ToEnvelope.
func ProjectEvent(event Event) (Projection, error) {
	env, err := ToEnvelope(event)
	if err != nil {
		return Projection{}, err
	}
	return env.Project(), nil
}

// AppendJSON appends the projection to dst as one object with all 17 columns; nil is written
// as null. Strings are written as in an envelope. They must be valid UTF-8, as those of
// [Envelope.Project] always are.
func (p Projection) AppendJSON(dst []byte) []byte {
	column := func(s *string) func(*output) {
		if s == nil {
			return nil
		}
		return func(o *output) { o.string(*s) }
	}
	o := output{text: dst}
	p.write(&o, jsonColumns{
		data:      column(p.DataJSON),
		errorKind: column(p.ErrorKindJSON),
		metadata:  column(p.MetadataJSON),
		payload:   column(&p.PayloadJSON),
		summary:   column(p.VerificationSummaryJSON),
	})
	return o.text
}

// jsonColumns are functions that write the columns that are JSON. Nil stands for null.
type jsonColumns struct {
	data, errorKind, metadata, payload, summary func(*output)
}

// write writes the 17 columns. It calls columns for those that are JSON, and takes the others
// from p.
func (p *Projection) write(o *output, columns jsonColumns) {
	null := func(name string, absent bool) bool {
		o.text = append(o.text, name...)
		if absent {
			o.text = append(o.text, "null"...)
		}
		return absent
	}
	column := func(name string, write func(*output)) {
		if !null(name, write == nil) {
			write(o)
		}
	}
	str := func(name string, s *string) {
		if !null(name, s == nil) {
			o.string(*s)
		}
	}
	number := func(name string, u *uint64) {
		if !null(name, u == nil) {
			o.text = strconv.AppendUint(o.text, *u, 10)
		}
	}
	column(`{"data_json":`, columns.data)
	str(`,"error":`, p.Error)
	column(`,"error_kind_json":`, columns.errorKind)
	str(`,"event_type":`, &p.EventType)
	if !null(`,"exit_code":`, p.ExitCode == nil) {
		o.text = strconv.AppendInt(o.text, int64(*p.ExitCode), 10)
	}
	column(`,"metadata_json":`, columns.metadata)
	column(`,"payload_json":`, columns.payload)
	str(`,"prompt":`, p.Prompt)
	str(`,"text":`, p.Text)
	str(`,"tool_id":`, p.ToolID)
	str(`,"tool_name":`, p.ToolName)
	str(`,"tool_output":`, p.ToolOutput)
	number(`,"total_tokens":`, p.TotalTokens)
	number(`,"turn":`, p.Turn)
	column(`,"verification_summary_json":`, columns.summary)
	str(`,"verification_summary_text":`, p.VerificationSummaryText)
	o.text = append(o.text, `,"version":`...)
	o.text = append(strconv.AppendUint(o.text, uint64(p.Version), 10), '}')
}

// MarshalJSON is [Projection.AppendJSON]; see [Envelope.MarshalJSON].
func (p Projection) MarshalJSON() ([]byte, error) { return p.AppendJSON(nil), nil }

var projectionShape = unions{}.object(reflect.TypeFor[Projection](), false)

// DecodeProjection reads what [Projection.AppendJSON] writes. The members may be in any
// order. A column that is null or missing is nil, and unknown members are ignored. Errors
// are of type *[DecodeError].
func DecodeProjection(data []byte) (Projection, error) {
	v, err := parse(string(data), 0)
	if err != nil {
		return Projection{}, err
	}
	var p Projection
	if err := (&decoder{cursor{s: v.text}}).object(reflect.ValueOf(&p).Elem(), projectionShape); err != nil {
		return Projection{}, err
	}
	return p, nil
}

// UnmarshalJSON is [DecodeProjection].
func (p *Projection) UnmarshalJSON(data []byte) (err error) {
	*p, err = DecodeProjection(data)
	return err
}
