# ruff: noqa: E501, RUF001, S105 - a table has one row on each line, and patterns are no passwords
"""Secrets that are told in sentences of several languages, sent by scripts, or written as bytes.

Upper and lower case are the same, and ``^`` and ``$`` are the ends of a line.
"""

from evaluation_pipelines.judging.domain.prompt.secrets.pattern import SecretPattern as Place

# A blank or the end of a line, also as an escape within JSON
_BLANK = r"(?:\s|\\[nrt])"
_NAMED = (
    r"(?:pass(?:word|code|phrase)|secret|token|(?:api|access|app|license)[ _-]?(?:key|password))"
)
# Byte after byte, as in arrays of source code
_BYTE = r"(?:0x[0-9a-f]{1,2}|\d{1,3})(?:u8)?"
_BYTES = rf"(?:{_BYTE}{_BLANK}{{0,9}},{_BLANK}{{0,9}}){{15,199}}{_BYTE}"

# German, French, Spanish, Italian, Portuguese, Polish, Russian, Chinese, Japanese, Korean
_PASSWORD = r"(?:pa(?:ss|ß)wort|kennwort|mot de passe|mdp\b|contraseña|clave|senha|hasło|[Пп]арол[ья]|密[码碼]|口令|パスワード|暗証番号|비밀번호)"
_PASSWORD_HINTS = "passwort,paßwort,kennwort,mot de passe,mdp,contraseña,clave,senha,hasło,парол,密码,密碼,口令,パスワード,暗証番号,비밀번호"
_IS = r"[\"'*]{0,3}(?:\s{0,2}(?:lautet|ist|war|est|era?|es|é|è|jest|to|это|[是为為はが:：=]))+\s{0,3}[\"'`„“«「*]{0,3}\s?"
_END = r"(?=[\s\"'`,;*\\]|[.!?](?:\s|\Z)|[^!-~]|\Z)"

_CODE = r"(?:(?:one[ -]?time|verification|security|log[ -]?in|sign[ -]?in|sms|2fa|mfa|two-factor|auth(?:entication|enticator)?|confirmation|backup|recovery)[ _-]?(?:pass)?(?:code|pin)s?|one[ -]?time[ _-]?password|\bt?otp(?:[ _-]code)?|\bpin(?:[ _-]code)?|einmal(?:code|passwort)|bestätigungscode|code de vérification|código de verificación|验证码|認証コード)"
_CODE_HINTS = "one,verification,security,log,sign,sms,2fa,mfa,two-factor,auth,confirmation,backup,recovery,otp,totp,pin,einmal,bestätigungscode,code de v,código,验证码,認証コード"

# fmt: off
SENTENCES = (
    # Key files and bytes
    Place("private-key", "private-lines", rf"Private-Lines: \d+(?P<secret>(?:{_BLANK}{{1,4}}(?:\d{{1,4}}[→|:\t][ ]?)?[A-Za-z0-9+/=]{{4,76}}(?![\w:-])){{1,99}})", "Private-Lines: 2\r\n{B64}\r\n{B20}"),
    Place("private-key", "priv:,privateexponent:,prime1:,prime2:", rf"(?:priv|privateExponent|prime[12]):(?P<secret>(?:{_BLANK}{{0,12}}[0-9a-f]{{2}}:){{15,999}}{_BLANK}{{0,12}}[0-9a-f]{{2}})", "priv:\n    0a:1b:2c:3d:4e:5f:60:71:\n    82:93:a4:b5:c6:d7:e8:f9"),
    Place("key-bytes", "key,secret,seed,priv,token,password,salt,wallet", rf"(?:key|secret|seed|priv|token|password|salt|wallet)\w{{0,20}}[^\n\[{{]{{0,40}}(?:\[[^\]\n]{{0,12}}\][^\n\[{{]{{0,30}})?[\[{{]{_BLANK}{{0,9}}(?P<secret>{_BYTES})", "signing_key = [7, 201, 33, 90, 14, 77, 250, 3, 61, 128, 19, 222, 45, 9, 180, 66]", "bytes"),
    Place("key-bytes", "[", rf"\[{_BLANK}{{0,9}}(?P<secret>(?:\d{{1,3}}{_BLANK}{{0,9}},{_BLANK}{{0,9}}){{63}}\d{{1,3}}){_BLANK}{{0,9}}\]", "[" + ",".join(str(n * 83 % 256) for n in range(64)) + "]", "bytes"),
    # Scripts that type a password
    Place("password", "expect", r"\bexpect\b(?:[^\n]{0,20}\n)?[^\n]{0,40}?(?:ass(?:word|phrase|code)|\bpin\b)[^\n]{0,40}?(?:\n[^\n]{0,40}?)?\b(?:exp_)?send(?:line)?\b[\s(-]{1,6}\\{0,3}[\"'{](?P<secret>[^\"'\\\n}]{4,200})", 'expect "assword:"\nsend "{w}\\r"', "value"),
    # Sentences
    Place("password", _PASSWORD_HINTS, _PASSWORD + _IS + r"(?P<secret>[!#-&(-+\--:<-_a-~]{4,200}?)" + _END, "Das Passwort lautet {W}", "key_like"),
    Place("password", _PASSWORD_HINTS, _PASSWORD + _IS + r"(?P<secret>[a-z]{6,40})(?=[\"'`]|\s{0,3}です|\s{0,3}$)", "密码：{w}", "letters"),
    Place("password", "passphrase", r"passphrase[^\n:=]{0,40}?(?:\sis|\swas|:|=)\s{0,3}[\"'`]?(?P<secret>[a-z0-9]{2,20}(?:[ -][a-z0-9]{2,20}){2,11})(?=\s{0,3}$|[.\"'`\\,;])", "Passphrase: {P}", "words"),
    Place("password", "passphrase", r"passphrase\s[\"'`]?(?P<secret>[a-z]{3,12}(?:[ ][a-z]{3,12}){3,11})(?=\.?\s{0,3}$|[\"'`\\])", "passphrase {P}", "passphrase"),
    Place("secret", "pass,secret,token,api,access,app,license", _NAMED + r"[\"'`\]\\]{0,6}\s{0,2}(?:is|was|:|=)\s{0,3}\\{0,3}[\"'`]?(?P<secret>[A-Za-z0-9_]{3,10}(?:[ ][A-Za-z0-9_]{3,10}){2,15})(?=\s{0,3}$|[\"'`.,;\\)])", "app password: {l4} {l4} {l4} {l4}", "groups"),
    # Codes that hold for a minute, and those that replace them
    Place("secret", _CODE_HINTS, _CODE + r"[\"'*]{0,4}\s{0,2}(?:(?:is|was|are|ist|lautet|est|es|[是为為は:：=#])\s{0,2}){0,2}[\"'`*]{0,3}(?P<secret>\d{3}[ -]\d{3}|\d{4,8})(?![\w:/%-]|[.,]\d)", "Your verification code is {D6}"),
    Place("secret", "backup,recovery,scratch", rf"\b(?:backup|recovery|scratch)[ _-]codes?[^\n]{{0,40}}(?P<secret>(?:{_BLANK}{{1,4}}(?:[-*•]|\d{{1,2}}[.)])?[ ]{{0,3}}[a-z0-9]{{4,10}}-[a-z0-9]{{4,10}}){{2,20}})", "recovery codes:\n{l5}-{D5}\n{l5}-{D5}"),
)
"""Places whose pattern begins with one of its hints."""
# fmt: on
