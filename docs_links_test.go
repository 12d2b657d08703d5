package beamagents_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	codeBlock = regexp.MustCompile("(?s)```.*?```")
	pageLink  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.*)$`)
)

// Every link of a page to this repository leads to a file, and to a heading if it names one.
func TestPageLinks(t *testing.T) {
	links := 0
	err := filepath.WalkDir(".", func(page string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(page) != ".md" {
			return err
		}
		for _, m := range pageLink.FindAllStringSubmatch(codeBlock.ReplaceAllString(readText(t, page), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			path, fragment, _ := strings.Cut(m[1], "#")
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			} else if fragment != "" && !anchors(readText(t, target))[fragment] {
				t.Errorf("%s links to %s, which has no such heading", page, m[1])
			}
		}
		return nil
	})
	if err != nil || links < 100 {
		t.Errorf("%d links: %v", links, err)
	}
}

// anchors are the names by which GitHub links to the headings of a page.
func anchors(page string) map[string]bool {
	names := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(codeBlock.ReplaceAllString(page, ""), -1) {
		names[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, m[1])] = true
	}
	return names
}
