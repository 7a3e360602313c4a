# ruff: noqa: E501, S105 - a table has one row on each line, and patterns are no passwords
"""Secrets known by the text around them: names, headers, command lines, files and markup.

Upper and lower case are the same, and ``^`` and ``$`` are the ends of a line.
"""

from evaluation_pipelines.judging.domain.prompt.secrets.pattern import SecretPattern as Place

_PASSWORD = r"(?:pass(?:word|wd|phrase|code)s?|(?<![a-z])pass|pwd|(?<![a-z])(?:pw|psk))"
_KEYS = (
    "api app application access auth account admin private signing encryption master shared license "
    "rest project write ingest storage service"
).split()
_KEY_OF = "|".join(rf"(?<={each})|(?<={each}[ _-])" for each in _KEYS)
_SECRET = rf"(?:{_PASSWORD}|secret(?:[_-]?(?:access[_-]?)?key)?(?:[_-]?base)?|mnemonic)"
_NAME = rf"(?:{_SECRET}|token(?!s)|credentials?|(?:{_KEY_OF})key|connection[_-]?string)"
_NAME_HINTS = "pass,pwd,pw,psk,secret,token,credential,key,connection,mnemonic"
# End of a quoted name: "name", name['x'], or \"name\" as in JSON within JSON
_AFTER = r"[\"'`\]\\]{0,6}"
_IS = r"\s{0,4}(?::=|=>|[:=])\s{0,4}"
_QUOTE = r"[bfru]{0,2}(?P<quote>\\{0,7}[\"'`])"
# No end of line, and no end of a JSON string around it; escapes are pairs.
_QUOTED = _QUOTE + r"(?P<secret>(?:(?!(?P=quote))(?:[^\\\n\"]|\\[^\nnr])){4,400})(?P=quote)"
_BARE = r"(?P<secret>[^\s\"'`\\,;(){}\[\]<>|&]{4,400}+)(?![(\[])"
_WORD = r"(?P<secret>[^\s\"'\\|;-][^\s\"'\\|;]{3,199})"
# An argument of a command: words within quotes, or one word
_ARGUMENT = (
    r"(?P<quote>\\{0,7}[\"'])?"
    r"(?P<secret>(?(quote)(?![\s,+.;)|-])(?:(?!(?P=quote))[^\\\n]){4,200}(?=(?P=quote))|(?!))"
    r"|[^\s\"'\\|;-][^\s\"'\\|;]{3,199})"
)
_END = r"(?=$|[\s;&\"']|\\[nrt\"])"
_LINE = r"(?:^|(?<=\\n))"
_TO_OPTION = r"\s(?:[^\n|;]{0,200}?\s)?"
_B64 = r"[A-Za-z0-9+/]"

# fmt: off
PLACES = (
    # Private keys; the last line is missing if the text was truncated.
    Place("private-key", "-----begin", r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:(?:\s|\\n|\\r)*[A-Za-z-]{1,20}: [^\n\\]{0,120}){0,5}[A-Za-z0-9+/=\s\\]*(?:-----END [A-Z0-9 ]{0,40}-----)?", "-----BEGIN RSA PRIVATE KEY-----\n{A64}\n-----END RSA PRIVATE KEY-----"),
    # Addresses
    Place("url-password", "://", r"://[^\s/:@\"'<>\\]{0,100}:(?P<secret>[^\s\"'<>/\\]{1,200})@(?=[\w.\[*-])", "postgres://app:{A12}@db/shop", "value"),
    Place("url-password", "jdbc:oracle", r"jdbc:oracle:\w{1,9}:[\w.$#-]{1,60}/(?P<secret>[^\s@\"'\\]{3,99})@", "jdbc:oracle:thin:app/{A12}@db:1521/x", "value"),
    Place("azure-signature", "sig=", r"(?<=[?&])sig=(?P<secret>[A-Za-z0-9%+/=]{20,})", "https://a.net/b?sig={A43}"),
    Place("signature", "signature=", r"signature=(?P<secret>[a-f0-9]{40,})", "?X-Amz-Signature={H64}"),
    Place("cookie", "cookie", r"\bcookie[\"']?\s?:\s?[\"']?(?P<secret>[\w.-]{1,60}=[^\r\n\"'\\]{6,4000})", "Cookie: theme=dark; sid={A32}"),
    Place("session-id", "session,sess,sid,jsession,phpsess", r"(?<=[?;&\s])(?:session_?id|sess(?:ion)?|sid|jsessionid|phpsessid)=(?P<secret>[\w%.:+/-]{16,})", "/a;jsessionid={H32}", "key_like"),
    Place("key", "?,&", r"[?&](?:\w{0,12}key|code|auth)=(?P<secret>[\w%.+/~-]{16,})", "/a?key={A32}", "key_like"),
    Place("slack-webhook", "hooks.slack", r"hooks\.slack\.com/[a-z]{1,20}/(?P<secret>[\w/]{20,})", "https://hooks.slack.com/services/T{C8}/B{C8}/{A24}"),
    Place("webhook", "discord", r"discord(?:app)?\.com/api/webhooks/\d{1,30}/(?P<secret>[\w-]{40,})", "https://discord.com/api/webhooks/1122/{U68}"),
    Place("webhook", "webhook.office", r"webhook\.office\.com/webhookb2/(?P<secret>[^\s\"'\\<>]{40,300})", "https://a.webhook.office.com/webhookb2/{uuid}@{uuid}/IncomingWebhook/{H32}/{uuid}"),
    Place("webhook", "hooks.zapier", r"hooks\.zapier\.com/hooks/catch/(?P<secret>[\w/]{6,99})", "https://hooks.zapier.com/hooks/catch/{D7}/{l7}/"),
    Place("webhook", "/bot/v2/hook/,/with/key/,/hooks/", r"/(?:bot/v2/hook|with/key|hooks)/(?P<secret>[\w-]{16,99})", "https://open.feishu.cn/open-apis/bot/v2/hook/{uuid}", "key_like"),
    # Headers
    Place("authorization", "authorization", r"authorization\W{1,8}(?:bearer|basic|token|digest|api-?key|api-token|splunk|geniekey|ssws|bot|negotiate)\s{1,4}(?:token=)?[\"']?(?P<secret>[^\s\"'\\,;]{6,})", "Authorization: Basic {A32}", "value"),
    Place("authorization", "authorization", r"authorization[\"']?\s?[:=]\s?[\"']?(?P<secret>[^\s\"'\\,;]{8,})", "Authorization: {A32}", "key_like"),
    Place("authorization", "bearer", r"\bbearer\s{1,4}(?P<secret>[A-Za-z0-9._~+/=-]{16,})", "Bearer {A32}", "key_like"),
    Place("cookie", "curl", rf"\bcurl{_TO_OPTION}(?:-b|--cookie)\s{{1,4}}[\"']?(?P<secret>[\w.-]{{1,60}}=[^\s\"'\\]{{6,}})", "curl -b 'sid={A32}' https://a.net"),
    # Names with values
    Place("password", _NAME_HINTS, _SECRET + _AFTER + _IS + _QUOTED, 'password = "{W}"', "value"),
    Place("secret", _NAME_HINTS, _NAME + _AFTER + _IS + _QUOTED, '"api_key": "{A32}"', "key_like"),
    Place("password", "pass,pwd,pw,psk", _PASSWORD + _AFTER + _IS + _QUOTED, "passphrase: '{P}'", "passphrase"),
    Place("secret", "define(", r"\bdefine\(\s?\\?[\"'][\w.]{0,40}(?:pass|secret|key|salt|token)\w{0,20}\\?[\"']\s?,\s?" + _QUOTED, "define('DB_PASSWORD', '{W}');", "value"),
    Place("password", _NAME_HINTS, _PASSWORD + _AFTER + _IS + _BARE, "  password: {W}", "key_like"),
    Place("secret", _NAME_HINTS, _NAME + _AFTER + r"\s{0,4}(?::=|[:=])\s{0,4}" + _BARE, "API_TOKEN={A32}", "key_like"),
    Place("password", "pass,pwd,pw,psk,secret", _SECRET + rf"=(?P<secret>[a-z]{{6,40}}){_END}", "db_password={w}", "letters"),
    Place("password", "pass,pwd,pw,psk,secret", _SECRET + r":\s(?P<secret>[a-z]{6,40})(?=\s{0,9}$|\\[nrt\"]|[\"'])", "  password: {w}", "letters"),
    # A name in capitals is an environment variable; its value needs no digit.
    Place("secret", "pass,pwd,_pw,secret,token,_key,_pat", r"(?-i:(?:PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|_PW|SECRET|TOKEN|_KEY|_PAT)(?:_BASE|_KEY)?=)(?P<secret>[^\s\"'`\\]{6,400})", "JWT_SECRET={w}", "value"),
    Place("secret", "app_key", r"APP_KEY=base64:(?P<secret>[A-Za-z0-9+/=]{20,})", "APP_KEY=base64:{B43}="),
    Place("secret", "backup,recovery,one-time,otp,2fa", r"\b(?:backup|recovery|one-time|otp|2fa)[ _-]?codes?\s?(?:is|:|=)?\s{0,2}(?P<secret>[\w-]{6,40})", "backup code: {l4}-{D4}", "key_like"),
    Place("seed-phrase", "seed,mnemonic,recovery,wallet,secret", r"\b(?:seed|mnemonic|recovery|wallet|secret)(?:[ _-]?(?:phrase|words?))?[\"']?\s?(?:is)?\s?[:=]?\s?[\"']?(?P<secret>(?:[a-z]{3,8}\s){11,23}[a-z]{3,8})\b", "seed phrase: {S12}", "seed"),
    Place("password", "password,passphrase,secret,key,token", r"\b(?:password|passphrase|secret|key|token)\s(?:is|was):?\s[\"'`]?(?P<secret>[^\s\"'`\\]{6,})", "the password is {W}", "key_like"),
    Place("password", _NAME_HINTS, _NAME + r"\s?:?\*\*:?\s{0,2}[`\"']?(?P<secret>[^\s\"'`\\*]{4,99})", "**Password:** {W}", "key_like"),
    Place("password", _NAME_HINTS, _NAME + r"\s{0,9}\|\s{0,9}`?(?P<secret>[^\s|`\\\"']{4,99})`?\s{0,9}\|", "| password | {W} |", "key_like"),
    # Command lines
    Place("password", "--pass,--token,--secret,--api,--auth,--account-key", r"--(?:password|passwd|pass|passphrase|token|secret|api-?key|auth-?key|auth-?token|account-key)(?:=|\s{1,4})" + _ARGUMENT, "deploy --token {A32}", "argument"),
    Place("secret", "--key,--private-key", r"--(?:private-)?key(?:=|\s{1,4})[\"']?(?P<secret>[\w+/=-]{24,})", "wandb login --key {H40}", "key_like"),
    Place("password", "env ,arg ", rf"\b(?-i:ENV|ARG)\s\w{{0,40}}(?:PASS|SECRET|TOKEN|KEY)\w{{0,20}}\s{_WORD}", "ENV DB_PASSWORD {W}", "value"),
    Place("secret", "--from-literal", r"--from-literal=[\"']?[\w.-]{1,60}=(?P<secret>[^\s\"'\\]{4,})", "kubectl create secret generic db --from-literal=url={w}", "value"),
    Place("secret", "configure set", r"configure\sset\s\w{0,40}(?:secret|token)\w{0,40}\s(?P<secret>[^\s\"'\\]{8,})", "aws configure set aws_secret_access_key {A40}", "value"),
    Place("secret", "vault login,cargo login,snyk auth", r"\b(?:vault\slogin|cargo\slogin|snyk\sauth)\s(?P<secret>[^\s\"'\\-][^\s\"'\\]{7,})", "snyk auth {uuid}", "key_like"),
    Place("password", "mysql,mariadb", rf"\b(?:mysql|mariadb)\w{{0,10}}{_TO_OPTION}-p{_WORD}", "mysql -uroot -p{W} shop", "value"),
    Place("password", "sshpass", rf"\bsshpass\s{{1,4}}-p\s{{0,4}}{_ARGUMENT}", "sshpass -p {w} ssh host", "argument"),
    Place("password", "curl", rf"\bcurl{_TO_OPTION}(?:-u|--user)\s{{1,4}}[\"']?[^\s:\"']{{1,64}}:{_WORD}", "curl -u bot:{W} https://a.net", "value"),
    Place("password", "redis-cli", rf"\bredis-cli{_TO_OPTION}-a\s{{1,4}}{_ARGUMENT}", "redis-cli -a {w} ping", "argument"),
    Place("password", "mongo,docker login,podman login,helm registry login,oras login,az login,twine", rf"\b(?:mongo\w{{0,8}}|[\w ]{{1,20}}\slogin|twine\supload){_TO_OPTION}-p\s{{1,4}}{_ARGUMENT}", "docker login -u ci -p {w} a.net", "argument"),
    Place("password", "openssl", rf"\bopenssl{_TO_OPTION}-(?:pass|passin|passout)\s{{1,4}}[\"']?pass:{_WORD}", "openssl rsa -passin pass:{w}", "value"),
    Place("password", "zip,unzip,sqlcmd,bcp", rf"\b(?:zip|unzip|sqlcmd|bcp){_TO_OPTION}-P\s{{1,4}}{_ARGUMENT}", "unzip -P {w} a.zip", "argument"),
    Place("password", "7z", rf"\b7z[ar]?{_TO_OPTION}-p{_ARGUMENT}", "7z x -p{W} a.7z", "argument"),
    Place("password", "ssh-keygen", rf"\bssh-keygen{_TO_OPTION}-N\s{{1,4}}{_ARGUMENT}", "ssh-keygen -N {w} -f a", "argument"),
    Place("password", "ldap", rf"\bldap\w{{1,12}}{_TO_OPTION}-w\s{{1,4}}{_ARGUMENT}", "ldapsearch -x -w {W} -b a", "argument"),
    Place("password", "smbclient", rf"\bsmbclient{_TO_OPTION}-U\s{{1,4}}[\"']?[\w.\\-]{{1,60}}%{_WORD}", "smbclient //a/b -U ann%{W}", "value"),
    Place("password", "-storepass,-keypass", rf"-(?:store|key)pass\s{{1,4}}{_ARGUMENT}", "keytool -storepass {w}", "argument"),
    Place("password", "nmcli", rf"\bnmcli{_TO_OPTION}password\s{{1,4}}{_ARGUMENT}", "nmcli dev wifi connect home password {W}", "argument"),
    Place("password", "echo ,printf ", rf"\b(?:echo|printf)\s{{1,4}}[\"']?(?:[\w.-]{{1,40}}:)?{_WORD}[\"']?\s{{0,4}}\|\s{{0,4}}(?:sudo\s{{1,4}}-S|[^\n|;]{{0,120}}--password-stdin|(?:sudo\s)?chpasswd)", "echo {w} | sudo -S ls", "value"),
    # Databases and servers
    Place("password", "identified,password", r"\b(?:identified\s(?:with\s\w{1,40}\s)?by|password)\s{1,4}(?P<quote>\\{0,3}')(?P<secret>[^'\\\n\"]{4,200})(?P=quote)", "CREATE USER app IDENTIFIED BY '{W}'", "value"),
    Place("password", "requirepass,masterauth", rf"{_LINE}(?:requirepass|masterauth)\s{{1,4}}[\"']?{_WORD}", "requirepass {w}", "value"),
    Place("password", "auth ", rf"(?:^|(?<=\\n)|(?<=> ))(?-i:AUTH\s(?:[\w.-]{{1,40}}\s)?){_WORD}{_END}", "AUTH {w}", "value"),
    Place("password", "login", rf"(?<=\w\s)(?-i:LOGIN)\s\\?[\"']?[^\s\"'\\]{{1,60}}\\?[\"']?\s\\?[\"']?{_WORD}(?=[\"'\\\s]{{0,4}}$|\\[nr\"])", "a1 LOGIN ann {W}", "value"),
    Place("password", "user ", rf"(?-i:USER)\s\S{{1,60}}(?:\s{{1,3}}|\\r|\\n)(?:[^\n]{{0,80}}\n)?(?-i:PASS)\s{_WORD}(?=\s{{0,4}}$|\\[nr\"]|\")", "USER ann\nPASS {w}", "value"),
    Place("password", "password,secret", rf"\b(?:password|secret)\s\d\s{_WORD}", "enable password 7 {X14}", "key_like"),
    # Files
    Place("password", "login", r"\blogin\s{1,9}\S{1,99}\s{1,9}password\s{1,9}(?P<secret>[^\s\"'\\]{3,200})", "machine a.net login ci password {w}"),
    Place("secret", "privatekey,presharedkey", rf"(?:PrivateKey|PresharedKey)\s?=\s?(?P<secret>{_B64}{{43}}=)", "PrivateKey = {B43}="),
    Place("secret", "client-key-data", r"client-key-data[\"']?:\s?[\"']?(?P<secret>[A-Za-z0-9+/=]{20,})", "client-key-data: {B200}"),
    Place("secret", '"auth', r"\"auth\\{0,3}\"\s?:\s?\\{0,3}\"(?P<secret>[A-Za-z0-9+/]{8,400}={0,2})\\{0,3}\"", '{"auths": {"ghcr.io": {"auth": "{B40}"}}}'),
    # Markup
    Place("password", _NAME_HINTS, rf"{_NAME}[\w:.-]{{0,20}}>(?P<secret>[^<>\n\"\\]{{4,200}})</", "<password>{w}</password>", "value"),
    Place("password", _NAME_HINTS, rf"{_NAME}\\?[\"']\s{{1,4}}value=\\?[\"'](?P<secret>[^\"'\\<>]{{4,200}})", '<add key="Password" value="{W}" />', "value"),
    Place("password", _NAME_HINTS, rf"{_NAME}</key>\s{{0,9}}<string>(?P<secret>[^<>\n\"\\]{{4,200}})</", "<key>Password</key><string>{W}</string>", "value"),
    Place("password", "convertto-securestring", r"ConvertTo-SecureString\s(?:-String\s)?\\?[\"'](?P<secret>[^\"'\\\n]{4,200})", 'ConvertTo-SecureString "{W}"', "value"),
)
"""Places whose pattern begins with one of its hints, the specific ones first."""

SURROUNDINGS = (
    Place("password", ":", rf"(?:{_LINE}(?:[ ]{{0,9}}\d{{1,5}}[→|:\t][ ]?)?|(?<=[\"'`]))(?:[\w.*/-]{{1,99}}|\[[0-9a-f:]{{2,39}}\]):(?:\*|[1-9]\d{{3,4}}):[\w.*$-]{{1,63}}:[\w.@*$-]{{1,63}}:(?P<secret>(?:[^\s:\"'\\`]|\\{{1,2}}[:\\]){{4,200}})(?=\s{{0,3}}$|\\[nr\"]|[\"'`])", "db:5432:shop:app:{w}", "value"),
    Place("secret", '"kty', r"\"d\\{0,3}\"\s?:\s?\\{0,3}\"(?P<secret>[\w-]{40,})", '{"kty": "RSA", "d": "{U86}"}'),
    Place("secret", "kind: secret", rf"{_LINE}[ ]{{1,9}}[\w.-]{{1,99}}:[ ](?P<secret>{_B64}{{8,}}={{0,2}})(?=\s{{0,4}}$|\\[nr\"])", "kind: Secret\ndata:\n  url: {b64w}", "encoded"),
    Place("secret", '"kind": "secret","kind":"secret"', rf"\"[\w.-]{{1,99}}\"\s?:\s?\"(?P<secret>{_B64}{{8,}}={{0,2}})\"", '{"kind": "Secret", "data": {"url": "{b64w}"}}', "encoded"),
    Place("password", "type=", r"<input\s[^<>]{0,200}?value=\\?[\"'](?P<secret>[^\"'\\<>]{4,200})\\?[\"'][^<>]{0,200}?type=\\?[\"']password", '<input value="{W}" type="password">', "value"),
    Place("password", "type=", r"<input\s[^<>]{0,200}?type=\\?[\"']password\\?[\"'][^<>]{0,200}?\svalue=\\?[\"'](?P<secret>[^\"'\\<>]{4,200})", '<input type="password" value="{W}">', "value"),
)
"""Places whose hint stands anywhere in the text."""

WORDS = (
    # A prefix and a long hexadecimal number; the prefix itself is not hexadecimal.
    Place("random-text", "", r"(?<![A-Za-z0-9])(?=[a-f0-9]{0,12}[g-z_-])[a-z][a-z0-9]{1,12}[_-]?(?-i:[a-f0-9]{32,})(?![a-z0-9])", "tok_{H40}"),
    Place("random-text", "", r"(?<![\w-])[\w-]{24,}", "{A40}", "random"),
)
"""Long words that are random."""
# fmt: on
