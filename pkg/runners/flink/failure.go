package flink

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/beamagents/beamagents-go/internal/terminaltext"
)

// JobError says why a job has not finished.
type JobError struct {
	// JobID is the job server's id of the job.
	JobID string
	// Cancelled reports that somebody has cancelled the job, so it has not failed.
	Cancelled bool
	// Step is the unique name of the step that failed. It is empty if no step failed, or if the
	// worker did not name it.
	Step string
	// Reason is the error of the step, or else the first sentence of Flink's error, of at most 4
	// KiB. It may contain data of the job. In Step and Reason, control characters other than line
	// ends and tabs are replaced by U+FFFD.
	Reason string
	// TraceFile is a file with all messages of the job server, including the Java traces. It is
	// empty if the file could not be written.
	TraceFile string
}

// Error returns the step, the reason, and where to read more.
func (e *JobError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "job %s ", oneLine(e.JobID))
	switch {
	case e.Cancelled:
		b.WriteString("was cancelled")
	case e.Step != "":
		fmt.Fprintf(&b, "failed in step %s: %s", e.Step, e.Reason)
	default:
		fmt.Fprintf(&b, "failed: %s", e.Reason)
	}
	if e.TraceFile != "" {
		fmt.Fprintf(&b, " (trace: %s)", e.TraceFile)
	}
	return b.String()
}

// failed makes the error of a failed job from the messages of the job server.
func failed(id string, messages []string) *JobError {
	e := &JobError{JobID: id, Reason: "the job server gave no reason: read its log and the task manager's"}
	for _, m := range messages {
		step, reason := explain(m)
		// A message that names a step is best. Otherwise the last message counts.
		if e.Step == "" && reason != "" {
			e.Step, e.Reason = step, reason
		}
	}
	e.Step, e.Reason = printable(e.Step), printable(e.Reason)
	if len(messages) > 0 {
		e.TraceFile = keepTrace(id, messages)
	}
	return e
}

// nameLimit bounds the part of a trace file's name that comes from the id of the job. Most file
// systems allow 255 bytes.
const nameLimit = 120

// textLimit bounds a foreign text that is shown, in bytes.
const textLimit = 4096

// printable makes foreign text fit for a terminal. It cuts the end of a long text.
func printable(text string) string {
	cut := len(text) > textLimit
	if cut {
		end := textLimit
		for end > textLimit-utf8.UTFMax && !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	text = terminaltext.Lines(text)
	if cut {
		text += " ..."
	}
	return text
}

// forTerminal returns err, with a text that is fit for a terminal. The text may have names of steps
// and what the job server and the cluster answer.
func forTerminal(err error) error {
	if err == nil {
		return nil
	}
	text := terminaltext.Lines(err.Error())
	if text == err.Error() {
		return err
	}
	return &terminalError{err, text}
}

// terminalError is err with another text.
type terminalError struct {
	err  error
	text string
}

func (e *terminalError) Error() string { return e.text }

func (e *terminalError) Unwrap() error { return e.err }

// keepTrace writes the messages to a file that only the current user can read.
func keepTrace(id string, messages []string) string {
	name := unsafeInName.ReplaceAllString(id, "_")
	f, err := os.CreateTemp("", "flink-"+name[:min(len(name), nameLimit)]+"-*.log")
	if err != nil {
		return ""
	}
	_, err = f.WriteString(strings.Join(messages, "\n\n") + "\n")
	if closed := f.Close(); err != nil || closed != nil {
		return ""
	}
	return f.Name()
}

var (
	unsafeInName = regexp.MustCompile(`[^A-Za-z0-9._-]`)
	// dofnFailed matches the SDK's error of a bundle, with the step.
	dofnFailed = regexp.MustCompile(`DoFn\[UID:\d+, PID:([^\n]*?), Name: [^\n]*?\] failed:\n`)
	javaFrame  = regexp.MustCompile(`(?m)^\s*(at [\w.$/<>]+\(.*\)|\.\.\. \d+ more|Caused by: .*|Suppressed: .*)$`)
	goPanic    = regexp.MustCompile(`caused by:\npanic: ([^\n]*?) ?goroutine \d+ \[`)
	// goFrame matches a function in a Go trace, with its file and line.
	goFrame = regexp.MustCompile(`(?m)^([\w./*()\[\]·-]+)\(.*\)\n\t(\S+:\d+)`)
	// planStep matches a DoFn in the plan of a bundle. dofnName matches what surrounds the name
	// of its type in the name of its method.
	planStep  = regexp.MustCompile(`ParDo\[([^\]]+)\]`)
	dofnName  = regexp.MustCompile(`\(\*?(\w+)\)\.`)
	exception = regexp.MustCompile(`^(?:Caused by: )?(?:[\w$]+\.)+\w+(?:Exception|Error)(?:: |$)`)
	// workerGone matches the Java messages about a worker that has ended or cannot be reached.
	workerGone = regexp.MustCompile(`CANCELLED: client cancelled|UNAVAILABLE: (?:Network closed|io exception)|Process died with exit code \d+`)
)

// explain finds the step and its error in a message of the job server. reason is empty only if
// the message is.
func explain(message string) (step, reason string) {
	if at := dofnFailed.FindStringSubmatchIndex(message); at != nil {
		step = strings.TrimPrefix(message[at[2]:at[3]], transformPrefix)
		return step, goText(message[at[1]:])
	}
	if at := goPanic.FindStringSubmatchIndex(message); at != nil {
		return panicked(message[:at[0]], "panic: "+message[at[2]:at[3]], message[at[1]:])
	}
	if found := workerGone.FindString(message); found != "" {
		return "", "a worker process has ended, or cannot be reached (" + found + "); what it has said is in the log of the task manager, with LOOPBACK in that of this program"
	}
	return "", javaText(message)
}

// goText returns the error of a step without the Java frames after it.
func goText(text string) string {
	if at := javaFrame.FindStringIndex(text); at != nil {
		text = text[:at[0]]
	}
	return strings.TrimSpace(text)
}

// panicked finds the user's function that panicked, which is below panic itself in the trace. If
// the function is a method of a DoFn, it also finds the step in the plan of the bundle.
func panicked(plan, reason, trace string) (step, place string) {
	found := false
	for _, m := range goFrame.FindAllStringSubmatch(trace, -1) {
		switch name := m[1]; {
		case name == "panic" || strings.HasPrefix(name, "runtime."):
			found = found || name == "panic"
		case found:
			for _, fn := range planStep.FindAllStringSubmatch(plan, -1) {
				if strings.HasPrefix(dofnName.ReplaceAllString(name, "$1.")+".", fn[1]+".") {
					step = fn[1]
				}
			}
			return step, fmt.Sprintf("%s in %s (%s)", reason, name, m[2])
		}
	}
	return "", reason
}

// javaText returns the message of the innermost Java exception.
func javaText(message string) string {
	message = strings.TrimSpace(message)
	if at := strings.LastIndex(message, "Caused by: "); at >= 0 {
		message = message[at:]
	}
	if at := javaFrame.FindStringIndex(message[min(1, len(message)):]); at != nil {
		message = message[:at[0]+1]
	}
	short := strings.TrimSpace(message)
	for exception.MatchString(short) {
		rest := strings.TrimSpace(short[len(exception.FindString(short)):])
		if rest == "" {
			break // the exception has only a class and no message
		}
		short = rest
	}
	return short
}
