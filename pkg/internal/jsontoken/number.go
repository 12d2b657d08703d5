package jsontoken

// Number tells where the parts of a number lie, as offsets from its beginning.
type Number struct {
	Whole int // of the digits before the point: 1 behind a minus, else 0
	Point int // behind these digits: of the point if there is one
	Exp   int // behind the fraction: of the e or E if there is one
	End   int // behind the number
}

// IsFloat reports whether the number has a fraction or an exponent.
func (n Number) IsFloat() bool { return n.End > n.Point }

// ScanNumber finds the end of the number that s begins with; in 01 that is the end of the 0.
// If ok is false, s does not begin with a number, and End is the offset of the byte that is
// wrong, or len(s) if s ends too early.
func ScanNumber[T string | []byte](s T) (n Number, ok bool) {
	i := 0
	if len(s) > 0 && s[0] == '-' {
		i, n.Whole = 1, 1
	}
	if i < len(s) && s[i] == '0' {
		i++
	} else if i = digits(s, i); i == n.Whole {
		return Number{End: i}, false
	}
	n.Point = i
	if i < len(s) && s[i] == '.' {
		if i = digits(s, i+1); i == n.Point+1 {
			return Number{End: i}, false
		}
	}
	n.Exp = i
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		i++
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		start := i
		if i = digits(s, i); i == start {
			return Number{End: i}, false
		}
	}
	n.End = i
	return n, true
}

// digits returns the offset behind the digits from i on.
func digits[T string | []byte](s T, i int) int {
	for i < len(s) && '0' <= s[i] && s[i] <= '9' {
		i++
	}
	return i
}

// IsShortest reports whether the number whole.fraction surely has the fewest digits that
// read back as the same float64, and at most maxZeros zeros behind the point if it is below
// 1. It takes a fraction of at least one digit and does not parse the number, so it reports
// false for some numbers that have the fewest digits.
func IsShortest[T string | []byte](whole, fraction T, maxZeros int) bool {
	// No two decimals of up to 15 digits are the same float64, so none can be shortened.
	if len(whole)+len(fraction) > 15 {
		return false
	}
	if fraction[len(fraction)-1] == '0' {
		return len(fraction) == 1
	}
	if whole[0] != '0' {
		return true
	}
	low := 0 // zeros behind the point; the last digit is not one
	for fraction[low] == '0' {
		low++
	}
	return low <= maxZeros
}
