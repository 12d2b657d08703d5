package modelserver

import (
	"fmt"
	"strings"
)

// CallWords is a [Server].Reply for the tests of adapters. Each word such as "refund:500" of
// the last message is a call of the tool refund with the arguments {"cents": 500}. When tools
// have answered, the reply repeats their answers, separated by semicolons.
func CallWords(r Request) Reply {
	var told []string
	for i := len(r.Messages) - 1; i >= 0 && r.Messages[i].Role == "tool"; i-- {
		told = append([]string{r.Messages[i].Text}, told...)
	}
	if len(told) > 0 {
		return Reply{Text: strings.Join(told, "; ")}
	}
	var reply Reply
	for word := range strings.FieldsSeq(r.Last().Text) {
		if name, cents, found := strings.Cut(word, ":"); found {
			reply.ToolCalls = append(reply.ToolCalls, ToolCall{Name: name, Arguments: fmt.Sprintf(`{"cents": %s}`, cents)})
		}
	}
	if len(reply.ToolCalls) == 0 {
		reply.Text = "nothing to do"
	}
	return reply
}
