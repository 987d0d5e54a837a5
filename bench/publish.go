package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Paths of the published run and page in the repository.
const (
	publishedRun  = "docs/benchmarks.json"
	publishedPage = "docs/benchmarks.md"
)

// The page has blocks that are generated from the run. A block begins with runBlock or figuresBlock and ends with
// blockEnds. figuresBlock is followed by a regular expression, like the value of -run, that selects the figures of a
// table.
const (
	runBlock     = "<!-- run -->"
	figuresBlock = "<!-- figures: "
	blockEnds    = "<!-- end -->"
)

// publishRun publishes the run in a file.
func publishRun(file string) error {
	r, err := readRecord(file)
	if err != nil {
		return fmt.Errorf("-publish: %w", err)
	}
	if err := r.committed(); err != nil {
		return fmt.Errorf("-publish: %w", err)
	}
	page, err := os.ReadFile(publishedPage)
	if err != nil {
		return fmt.Errorf("-publish (run this in the repository): %w", err)
	}
	text, err := r.fill(string(page), figureNames())
	if err != nil {
		return fmt.Errorf("-publish: %s: %w", file, err)
	}
	if err := r.write(publishedRun); err != nil {
		return err
	}
	return os.WriteFile(publishedPage, []byte(text), 0o644)
}

func figureNames() []string {
	names := make([]string, len(figures))
	for i := range figures {
		names[i] = figures[i].Name
	}
	return names
}

// fill returns a page with its blocks generated anew. all are the names of all figures.
func (r *Record) fill(page string, all []string) (string, error) {
	var out strings.Builder
	inside := ""
	for line := range strings.Lines(page) {
		switch bare := strings.TrimSuffix(line, "\n"); {
		case bare == blockEnds && inside == "":
			return "", fmt.Errorf("the page has a %s without a beginning", blockEnds)
		case bare == blockEnds:
			inside = ""
			out.WriteString(line)
		case inside != "":
		case bare == runBlock:
			inside = bare
			fmt.Fprintf(&out, "%s%s", line, r.summary())
		case strings.HasPrefix(bare, figuresBlock):
			inside = bare
			pattern := strings.TrimSuffix(strings.TrimPrefix(bare, figuresBlock), " -->")
			match, err := regexp.Compile(pattern)
			if err != nil {
				return "", fmt.Errorf("the page's block %s: %w", bare, err)
			}
			names := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !match.MatchString(name) })
			if len(names) == 0 {
				return "", fmt.Errorf("the page's block %s matches no figure", bare)
			}
			table, err := r.table(names)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&out, "%s%s", line, table)
		default:
			out.WriteString(line)
		}
	}
	if inside != "" {
		return "", fmt.Errorf("the page's block %s has no %s", inside, blockEnds)
	}
	return out.String(), nil
}

// summary describes the run.
func (r *Record) summary() string {
	met := 0
	for _, f := range r.Figures {
		if f.Met {
			met++
		}
	}
	from := "from one round"
	if r.Rounds > 1 {
		from = fmt.Sprintf("the median of up to %d rounds", r.Rounds)
	}
	text := fmt.Sprintf(
		"Run of %s at commit %s on %s.\nEach value is %s. Of %d goals, %d are met.\n",
		r.Date, r.Commit, r.Machine, from, len(r.Figures), met,
	)
	if r.Scale != 1 {
		text += fmt.Sprintf(
			"\n**This run is provisional: it has %v of the full size, and says nothing about speed.**\n", r.Scale,
		)
	}
	return text
}

// table returns the table of the named figures. It fails if the run lacks one of them: only measured figures are
// published.
func (r *Record) table(names []string) (string, error) {
	var out strings.Builder
	out.WriteString("| name | what is measured | Penstock | compared with | goal |\n|---|---|---|---|---|\n")
	for _, name := range names {
		f := r.find(name)
		if f == nil {
			return "", fmt.Errorf("the run has no figure %s: measure it (bench -add -run '^%s$')", name, name)
		}
		unit, what := f.Unit, ""
		if at := strings.IndexAny(unit, " ,"); at >= 0 {
			unit, what = unit[:at], strings.TrimLeft(unit[at:], " ,")
		}
		// The last column but one has the peer. Without a peer, or if the goal is about the floor, it has the floor.
		who, value, share := f.Peer, f.PeerValue, f.PeerRatio
		if who == "" || f.Floor != "" && strings.Contains(f.Goal, "the floor") {
			who, value, share = f.Floor, f.FloorValue, f.FloorRatio
		}
		beside := ""
		if who != "" {
			who, _, _ = strings.Cut(who, ", ")
			beside = fmt.Sprintf("%s %s", who, amount(value))
		}
		if share > 0 {
			beside += fmt.Sprintf(" (%sx)", ratio(share))
		}
		verdict := "met"
		if !f.Met {
			verdict = "**missed**"
		}
		cells := []string{
			"`" + f.Name + "`", what, amount(f.Ours) + " " + unit, beside, f.Goal + ": " + verdict,
		}
		for i := range cells {
			cells[i] = strings.ReplaceAll(cells[i], "|", `\|`)
		}
		fmt.Fprintf(&out, "| %s |\n", strings.Join(cells, " | "))
	}
	return out.String(), nil
}

// amount formats a number with three significant digits and commas between thousands.
func amount(v float64) string {
	text := strconv.FormatFloat(v, 'g', 3, 64)
	if rounded, err := strconv.ParseFloat(text, 64); err == nil {
		text = strconv.FormatFloat(rounded, 'f', -1, 64)
	}
	whole, rest, _ := strings.Cut(text, ".")
	for at := len(whole) - 3; at > 0 && whole[at-1] != '-'; at -= 3 {
		whole = whole[:at] + "," + whole[at:]
	}
	if rest != "" {
		return whole + "." + rest
	}
	return whole
}
