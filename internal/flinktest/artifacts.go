package flinktest

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// DefaultPOM is the pom with the versions that are tested by default.
//
//go:embed pom.xml
var DefaultPOM []byte

// jarFolder is the folder for the jars of a pom. The job server uploads each jar of its class
// path with each job, unless its path contains this text. Flink has these jars already.
const jarFolder = "gradle/wrapper"

// shadedHarness matches a jar that contains an older core of Beam besides its own classes. It
// breaks stateful DoFns (NoSuchMethodError DoFnRunners.simpleRunner).
var shadedHarness = regexp.MustCompile(`^beam-sdks-java-harness-.*\.jar$`)

// artifacts returns the folder with the jars of a pom. At the first call Maven copies them into
// out/flink/<hash of the pom>.
func artifacts(ctx context.Context, root string, pom []byte) (string, error) {
	sum := sha256.Sum256(pom)
	dir := filepath.Join(root, "out", "flink", hex.EncodeToString(sum[:6]))
	jars := filepath.Join(dir, filepath.FromSlash(jarFolder))
	if _, err := os.Stat(jars); err == nil {
		return jars, nil
	}
	if _, err := exec.LookPath("mvn"); err != nil {
		return "", errors.New("mvn is not installed: the jars of Flink and of Beam's job server come from Maven (Debian: apt-get install maven)")
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "copying-*")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	if err := os.WriteFile(filepath.Join(tmp, "pom.xml"), pom, 0o644); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", filepath.Join(tmp, "pom.xml"), "dependency:copy-dependencies", "-DoutputDirectory="+filepath.Join(tmp, filepath.FromSlash(jarFolder))) //nolint:gosec // a folder of ours
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mvn dependency:copy-dependencies: %w\n%s", err, tail(out, 30))
	}
	if err := removeShadedHarness(filepath.Join(tmp, filepath.FromSlash(jarFolder))); err != nil {
		return "", err
	}
	// Another process may have copied them meanwhile.
	if err := os.Rename(tmp, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return jars, nil
}

func removeShadedHarness(dir string) error {
	jars, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, jar := range jars {
		if shadedHarness.MatchString(jar.Name()) {
			return os.Remove(filepath.Join(dir, jar.Name()))
		}
	}
	return nil
}

var javaVersion = regexp.MustCompile(`version "(\d+)`)

// checkJava returns an error if java cannot run Flink.
func checkJava(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "java", "-version").CombinedOutput()
	if err != nil {
		return fmt.Errorf("java is not installed: a Flink cluster needs Java 17 (Debian: apt-get install openjdk-17-jre-headless): %w", err)
	}
	m := javaVersion.FindSubmatch(out)
	if m == nil {
		return fmt.Errorf("java -version prints %q: install Java 17", out)
	}
	if version, err := strconv.Atoi(string(m[1])); err != nil || version != 17 {
		return fmt.Errorf("java is of version %s; Flink and Beam's job server run on Java 17", m[1])
	}
	return nil
}

// moduleRoot returns the folder of go.mod, above the working folder.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("the working folder is not in a Go module")
		}
		dir = parent
	}
}
