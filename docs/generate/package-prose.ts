/** The prose of docs/package-format.md. */

export const PACKAGE_RULES = {
  layout: `A package is a folder, sent as a zip or as a list of text files:

\`\`\`
readme.md              required: the frontmatter, then the readme that the catalog shows
index.ts               required: the code; it may import .ts, .js and .json files of the package by relative path, and nothing else
commands/<name>.md     a prompt command; its frontmatter may have a description
skills/<name>/SKILL.md a skill in the Agent Skills layout, with any files beside it; its frontmatter has name and description
assets/**              files of any kind, which the code reads with host.assets; binary ones only in a zip
\`\`\`

An import may say that it reads JSON: \`import data from './data.json' with { type: 'json' }\`. For a code file that is refused, and so is every other import attribute. The old keyword \`assert\` means the same as \`with\`.

Both forms of the same tree are the same version. \`bulkhead check\` says on your machine what a publish would say.`,

  frontmatter: `\`readme.md\` starts with YAML between two lines \`---\`:

\`\`\`yaml
name: Weather
description: Adds the forecast
capabilities: [host.llm, "host.workspace:read", "host.http:api.open-meteo.com"]
settings: { units: { label: Units, default: metric, enum: [metric, imperial] } }
secrets:  { apiKey: { label: API key, required: true } }
\`\`\``,

  frontmatterEnd: `Names of settings and secrets have 1-64 letters, digits, \`-\` or \`_\`, start with a letter and contain no \`__\`.

The YAML is version 1.2 with its core schema: \`yes\` and \`on\` are text, \`1.10\` is a number and must be in quotes to be text. It is one
document, with text as keys. References (\`*name\`), tags (\`!name\`), directives, fields that are set twice and unknown fields are refused. Every error names file, line and column. Control,
direction and invisible characters are refused in all text.`,

  capabilities: `Declare what the code uses outside its own process. Do not declare hooks, tools, commands, events, providers and \`channel\`: registering one makes it
a capability. An unknown capability is an error. \`host.assets\`, \`host.log\`, \`host.settings\` and \`host.secrets\` need none. A host of \`host.http:\` is a name with a
dot, or \`*.\` and a name for all hosts below it, in lower case and without scheme, port and path. IP addresses cannot be declared.`,

  code: `## Code

\`index.ts\` and what it imports become one bundle. Types are erased, not checked.

| In your own code | |
|---|---|
| \`import … from './file.ts'\`, \`import('./file.ts')\` | Files of the package, by a path in quotes. \`import()\` evaluates its file when it is called first. |
| any other import, \`require(…)\`, \`eval(…)\`, top-level \`await\` | Refused with file, line and column. In a \`.ts\` file, an import whose names only types use, or nothing, is erased like a type: it is refused only if it names a module of Node. |
| a name that the imported file does not export | Refused, also if that file has no \`import\` and no \`export\`: it is a module. The names of a file of CommonJS (\`module.exports\`), and of a \`.ts\` file that exports types only, are not checked. |
| a name that nothing declares | Refused, with the nearest name. A name that the file tests with \`typeof\` may be missing, and so may properties of \`globalThis\`. |

A published library works as it is. Bundle it into one file, for example with \`npx esbuild lib.ts --bundle --format=esm --outfile=vendor/lib.js\`, and
import that. A library's code is every file below \`vendor/\` or \`node_modules/\`, what a line \`// node_modules/…\` of esbuild's output marks in another file,
and a \`.js\` file with a licence comment (\`/*! … */\`, \`@license\`) or minified code. Every other \`.js\` file is your own code.

TypeScript reports error TS7016 for an import of a \`.js\` file without types. Give it types in a file beside it, \`vendor/lib.d.ts\` for \`vendor/lib.js\`. If the library
is in your \`node_modules\` with its types, the file needs the line \`export * from 'lib';\`, for a default export also \`export { default } from 'lib';\`, and for a library of
CommonJS only this second line. Otherwise declare what you use, as in \`export function half(value: number): number;\`. \`allowJs\` in \`tsconfig.json\` does not help: TypeScript
infers wrong types from bundled code. \`bulkhead\` does not send \`.d.ts\` files.

In a library:

| In a library's code | |
|---|---|
| \`import.meta\` | An object with a \`url\` that leads nowhere: \`plugin:///vendor/lib.js\`. The same in your own code. |
| \`import()\` of anything but a file of the package | Rejects with a TypeError when it is called. |
| \`require(…)\` | Throws a TypeError when it is called. |
| \`eval(…)\` | Runs the text in the plugin's own realm, without the names around it. |
| a name that nothing declares | A warning, and a ReferenceError when code reaches it. |
| \`process.env.NODE_ENV\` | Is \`'production'\`. The same in your own code. |

Code may have \`import\`, \`eval\` and similar words as names of methods and in strings. The bundle writes them with escapes and moves no line, so stack
traces, the inspector and errors show your own files.`,

  paths: `## Paths

Paths are UTF-8, separated by \`/\`, and start at the top of the package. Refused are:

- absolute paths, \`..\`, \`.\`, empty names, backslashes, colons and drive letters;
- control, direction and invisible characters;
- names that end with a dot or a space, and names of devices on Windows, such as \`aux\` or \`com1.txt\`;
- two paths that are one on some file system: equal, equal in another letter case (full Unicode folding: \`ß\` and \`SS\`, both lower forms of
  sigma), or equal after Unicode normalization. Folders count, also those that only the files in them name;
- a path that is both a file and a folder.

The error names the path and the rule.`,

  zips: `## Zips

One folder around everything is taken off. \`__MACOSX/\`, \`.DS_Store\`, \`Thumbs.db\` and \`._*\` are left out, of file lists, too.

A zip that another reader could open as another package is refused. So:

- The end record is the last one in the file, and its comment contains no other. With 64-bit records, all records agree.
- The directory has the position, the length and the number of entries that the end record states.
- The entries fill the file from its first byte to the directory. Nothing is before, between or after them; no two share bytes.
- The header of each entry has the same name, flags, method, sizes and checksum as the directory. With a data descriptor, the header may have
  zeros, and the descriptor has the values.
- Each entry unpacks to exactly its size and checksum, and its compressed data ends where the entry ends.
- Entries are stored or deflated, not encrypted, and files or folders: no links, no devices. A folder's name ends with \`/\`, a file's does not.
- Names are UTF-8, even without the flag that says so. A Unicode Path field has the same name.

After the upload, the zip is deleted. What Bulkhead keeps, hashes and hands out is the tree: \`GET /plugins/{id}/versions/{versionId}/archive\`
answers a zip that depends on the tree alone. [Agreement with other readers](package-agreement.md) shows what this means for every kind of zip.`,

  warnings: `## Warnings

Publishing, saving a draft and \`bulkhead check\` answer warnings about what is allowed but probably wrong: a capability that is declared and not
used, or used and not declared; a call that writes where only the \`:read\` form is declared; a request to a host that is not declared,
if the package declares others and the call has the address in quotes, as \`fetch('https://api.example.com/x')\` does; a field
of a tool that does not exist, and a keyword of its schema that JSON Schema does not have; a setting or a secret that nothing reads, and a read of one
that is not declared, such as \`ctx.settings.citi\` or \`host.secrets.get('tokn')\`; a command without a description;
\`channel.send\` or \`channel.handshake\` without \`channel.receive\`, which no inbox can be connected to;
files that nothing uses, such as \`command/review.md\`, code that is not imported, \`.git/\` and \`node_modules/\`. A warning prevents nothing.`,

  hash: `## The hash of a version

\`sourceSha256\` is the SHA-256 of one line for each file, \`path NUL hex(SHA-256 of the file) LF\`, sorted by the bytes of the paths. Anyone can repeat
it with bash in the unpacked archive of a version. Of a folder on your machine, \`bulkhead check --json\` prints it: the files of your tools, such as \`package.json\` and \`.gitignore\`, are
no part of the package.

\`\`\`sh
find . -type f -print0 | LC_ALL=C sort -z |
  while IFS= read -r -d '' path; do printf '%s\\0%s\\n' "\${path#./}" "$(sha256sum < "$path" | cut -c -64)"; done |
  sha256sum
\`\`\``,
} as const;

export const PUBLISHING_RULES = {
  versions: `## Version numbers and Latest

A version number is [SemVer 2.0.0](https://semver.org) as text: \`1.4.0\`, \`2.0.0-rc.1\`. Its numbers may be of any length. A leading \`v\`, blanks, leading
zeros and build metadata (\`+…\`) are refused, because two texts would be one version. A number is never used again, not even after a yank.

**Latest** is the highest published version by SemVer precedence, a pre-release only where there is no stable version. The time of a publish
does not matter: \`1.0.1\` published after \`1.1.0\` changes nothing for followers of Latest. To yank a version is to withdraw it: installations that follow
Latest move to the new Latest, and those that pinned the version keep it, with a notice. An update that has not started the version yet, for example of a paused
installation, ends before the yank is answered, unless its user pinned that version. A pin that still waits for consent never moves the installation; its user
reads that the version was withdrawn. No crash loop returns to a yanked version. The last version cannot be yanked.`,

  names: `## Name and description

The frontmatter of Latest has the plugin's name and description: for the catalog, its search, and installations. Until the first version, those of
\`POST /plugins\` apply, and \`PATCH /plugins/{id}\` changes them. The slug never changes.`,

  consent: `## Consent

A user accepts all capabilities of a version, and they become the grants of the installation. A new Latest that needs no more than the grants is installed without asking; one
that needs more waits as \`pendingUpdate\` until the user accepts that very version. [Install and use plugins](installing.md) says what users see and can do.`,

  delisting: `## Listing and delisting

A plugin is private until its owner lists it, which requires a published version. Delisting it (\`DELETE /plugins/{id}/listing\`, with a message) takes it out of the
catalog. [Installations keep working](installing.md#what-authors-and-operators-can-do-to-you). The owner keeps it among their plugins and can list it again, which removes the message.

A plugin with a published version cannot be deleted. An operator can [block it](installing.md#what-authors-and-operators-can-do-to-you): then it stops for all its users, who read the reason.`,

  verified: `## The verified tier

Every plugin has the tier \`community\` or \`verified\`; both run in the same jail. Verified means that the operator of this Bulkhead knows who the
author is, and the card shows that identity. It says nothing about the code.

To apply, write to the operator, outside of Bulkhead, after you have published for a while without trouble. Say:

1. your user name here, and who you are: a person or company with an address that can be checked, such as a domain that you control;
2. the slugs of your plugins, and where their source is;
3. how users and the operator reach you about a security problem.

The operator checks this and runs \`npm run -s operator -- verify <user>\`. The tier then holds for everything that you publish, until
\`npm run -s operator -- unverify <user>\` takes it back.`,
} as const;
