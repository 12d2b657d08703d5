package modelsdks_test

import (
	"os"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/ptest"
)

func TestMain(m *testing.M) {
	log.LogLevel = "warn"
	os.Exit(ptest.MainRetWithDefault(m, "prism"))
}
