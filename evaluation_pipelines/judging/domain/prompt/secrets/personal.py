# ruff: noqa: E501 - a table has one row on each line
"""Personal data, each kind by setting."""

from evaluation_pipelines.judging.domain.prompt.secrets.pattern import SecretPattern as Datum

_IPV4 = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"

# fmt: off
PERSONAL = (
    Datum("email", "@", r"(?<![\w.%+-])(?!git@)[\w.%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){0,4}\.[A-Za-z]{2,24}\b", "ann@example.org"),
    Datum("iban", "", r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?:[ ]?[A-Z0-9]{4}){2,7}(?:[ ]?[A-Z0-9]{1,3})?(?![A-Za-z0-9])", "DE89 3704 0044 0532 0130 00", "iban"),
    Datum("ssn", "ssn,social", r"(?i:\b(?:ssn|social[ _-]security(?:[ _-](?:number|no))?))[\"'\\]{0,4}\s?[:=]?\s?[\"'\\]{0,4}(?P<secret>\d{3}[ -]?\d\d[ -]?\d{4})(?!\d)", "SSN: 123456789"),
    Datum("phone", "tel,phone,mobile,fax", r"(?i:\b(?:tel|phone|mobile|fax)\w{0,8})[\"'\\.]{0,4}\s?[:=]?\s?[\"'\\]{0,4}(?P<secret>\(?0?\d{2,5}\)?[ /.-]?\d{3,4}(?:[ .-]?\d{2,4}){1,2})(?!\d)", "phone: 030 901820"),
    Datum("ip", ":", r"(?i:(?<![\w:.])(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}(?![\w:])|(?<![\w:.])(?:[0-9a-f]{1,4}:){1,6}(?::[0-9a-f]{1,4}){1,6}(?![\w:]))", "2001:db8::8a2e:370:7334", "address"),
    Datum("home", "/home/,/users/,\\users\\", r"(?i:(?:/home/|/Users/|\\Users\\))(?P<secret>[^\s/\\:\"'<>|]{1,64})(?=[/\\\s\"':]|$)", "/home/ann/shop", "user"),
)
"""Personal data that are found anywhere."""

NUMBERS = (
    Datum("card", "", r"(?<![\w.-])(?:4\d{3}|5[1-5]\d\d|2[2-7]\d\d|3[47]\d\d|3[068]\d\d|6(?:011|5\d\d|4[4-9]\d))(?:[ -]?\d{4}){2}[ -]?\d{1,4}(?:[ -]?\d{1,3})?(?![\w-])(?!\.\d)", "4111 1111 1111 1111", "card"),
    Datum("card", "", r"(?<![\w.-])3[47]\d\d[ -]?\d{6}[ -]?\d{5}(?![\w-])(?!\.\d)", "3782 822463 10005", "card"),
    Datum("ssn", "-", r"(?<![\w-])(?!000|666|9)\d{3}-(?!00)\d\d-(?!0000)\d{4}(?![\w-])", "123-45-6789"),
    Datum("phone", "+", r"(?<![\w+.])\+[1-9]\d{0,2}(?:[ .-]?\(?\d{1,4}\)?){2,6}(?![\w])", "+49 30 901820", "phone"),
    Datum("phone", "", r"(?<![\w.-])(?:\(\d{3}\) ?|\d{3}[.-])\d{3}[.-]\d{4}(?![\w-])(?!\.\d)", "(212) 555-0100"),
    Datum("ip", ".", rf"(?<![\w.-])(?!127\.|0\.0\.0\.0)(?:{_IPV4}\.){{3}}{_IPV4}(?![\w-])(?!\.\d)", "203.0.113.7"),
)
"""Personal data that begin with a digit, a plus or a parenthesis."""
# fmt: on

PERSONAL_KINDS = tuple(dict.fromkeys(each.kind for each in (*PERSONAL, *NUMBERS)))
"""Names that the setting takes."""
