package report

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Table is written in Markdown that also reads well as it is.
type Table struct {
	Title string
	Notes []string
	rows  [][]string
}

// New begins a table with the names of its columns.
func New(title string, columns ...string) *Table {
	return &Table{Title: title, rows: [][]string{columns}}
}

// Row adds a line.
func (t *Table) Row(cells ...string) { t.rows = append(t.rows, cells) }

// Note adds a remark below the table.
func (t *Table) Note(format string, args ...any) {
	t.Notes = append(t.Notes, fmt.Sprintf(format, args...))
}

// Write writes the table; the first column is flush left, numbers flush right.
func (t *Table) Write(w io.Writer) {
	widths := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell), 3)
		}
	}
	fmt.Fprintf(w, "\n### %s\n\n", t.Title)
	for n, row := range t.rows {
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				fmt.Fprintf(w, "| %s%s ", cell, pad)
			} else {
				fmt.Fprintf(w, "| %s%s ", pad, cell)
			}
		}
		fmt.Fprintln(w, "|")
		if n == 0 {
			rule(w, widths)
		}
	}
	for _, note := range t.Notes {
		fmt.Fprintf(w, "\n%s\n", note)
	}
}

func rule(w io.Writer, widths []int) {
	for i, width := range widths {
		dashes := strings.Repeat("-", width)
		if i == 0 {
			fmt.Fprintf(w, "|:%s-", dashes)
		} else {
			fmt.Fprintf(w, "|-%s:", dashes)
		}
	}
	fmt.Fprintln(w, "|")
}

// Times writes a ratio.
func Times(x float64) string { return Number(x) + dash(x, " ×") }

// Percent writes a share.
func Percent(x float64) string { return Number(100*x) + dash(x, " %") }

// Number writes three digits that matter, and a dash where there is no figure.
func Number(x float64) string {
	switch abs := math.Abs(x); {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return "–"
	case abs >= 1000:
		return group(x)
	case abs >= 99.95:
		return fmt.Sprintf("%.0f", x)
	case abs >= 9.995:
		return fmt.Sprintf("%.1f", x)
	case abs != 0 && abs < 0.0005:
		return "< 0.001"
	case abs != 0 && abs < 0.0995:
		return fmt.Sprintf("%.3f", x)
	default:
		return fmt.Sprintf("%.2f", x)
	}
}

// group writes 12345.6 as 12,300.
func group(x float64) string {
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(x)))-2)
	s := fmt.Sprintf("%.0f", math.Round(x/unit)*unit)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func dash(x float64, unit string) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return ""
	}
	return unit
}

// short writes a number of an axis.
func short(x float64) string { return strconv.FormatFloat(x, 'g', 3, 64) }
