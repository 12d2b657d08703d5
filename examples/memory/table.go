package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// printTable prints the customers, and the number of dead letters for each reason.
func printTable(w io.Writer, dir string) error {
	customers, err := readLines[summary](filepath.Join(dir, customersFile))
	if err != nil {
		return err
	}
	letters, err := readLines[struct{ Reason string }](filepath.Join(dir, deadLettersFile))
	if err != nil {
		return err
	}
	slices.SortFunc(customers, func(a, b summary) int { return strings.Compare(a.Customer, b.Customer) })
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "customer\tname\tevents\tmigrated\tevicted\tremembered")
	for _, c := range customers {
		migrated, evicted := "-", "-"
		if c.MigratedFrom > 0 {
			migrated = fmt.Sprintf("from %d", c.MigratedFrom)
		}
		if c.Evicted > 0 {
			evicted = fmt.Sprintf("%d (%s)", c.Evicted, kib(c.EvictedBytes))
		}
		fmt.Fprintf(table, "%q\t%q\t%d\t%s\t%s\t%s: %q\n", c.Customer, c.Name, c.Events, migrated, evicted,
			kib(c.TopicBytes), c.Topics)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	counts := map[string]int{}
	for _, l := range letters {
		counts[l.Reason]++
	}
	var text strings.Builder
	text.WriteString("dead letters\n")
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&text, "  %-20s %8d\n", reason, counts[reason])
	}
	fmt.Fprintf(&text, "  %-20s %8d\n", "total", len(letters))
	_, err = io.WriteString(w, text.String())
	return err
}

// kib formats a number of bytes in whole KiB.
func kib(n int64) string {
	if n > 0 && n < 1<<10 {
		return "<1 KiB"
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

// readLines reads a file with one JSON value per line.
func readLines[T any](path string) (all []T, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // the file is only read
	for lines := json.NewDecoder(file); lines.More(); {
		var line T
		if err := lines.Decode(&line); err != nil {
			return nil, err
		}
		all = append(all, line)
	}
	return all, nil
}
