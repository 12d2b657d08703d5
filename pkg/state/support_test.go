package state

import (
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"google.golang.org/protobuf/reflect/protoreflect"
)

func uint32Value(v uint32) protoreflect.Value { return protoreflect.ValueOfUint32(v) }

func intervalWindow(hour int) window.IntervalWindow {
	const ms = 3_600_000
	return window.IntervalWindow{Start: mtime.Time(hour * ms), End: mtime.Time((hour + 1) * ms)}
}
