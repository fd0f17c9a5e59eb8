/** Why Bulkhead refuses kinds of zips that yauzl opens, and what other readers see. */

const reasons: readonly (readonly [kind: RegExp, why: string])[] = [
  [
    /^bytes before/,
    'A reader that starts at the front, as programs do that unpack a stream, would find another package.',
  ],
  [/^bytes between/, 'The same: a hidden entry has a header of its own, which repair tools and stream readers find.'],
  [/^bytes after the directory/, 'Readers that use the length of the directory and those that use its count differ.'],
  [/^bytes after the end/, 'Readers search for the end record from the back, and differ in which one they take.'],
  [
    /^an end record in the comment/,
    'Readers search for the end record from the back, and differ in which one they take.',
  ],
  [/^two entries of one place/, 'Shared data makes small zips huge, and stream readers see one entry.'],
  [
    /^data after the end/,
    'Readers that use the size and those that stop at the end of the data go on at different places.',
  ],
  [/^no entries/, 'A package has a readme.md and an index.ts.'],
  [/^a link or device/, 'It would point out of the package. yauzl leaves the mode to its caller.'],
  [/^a folder without/, 'Unpacked it is a folder for some readers and a file for others.'],
  [/^a folder with content/, 'Unpacked it is a folder for some readers and a file for others.'],
  [/^a bomb/, 'The ratio is limited, and data belongs to one entry. yauzl unpacks it.'],
  [/^too many entries/, 'The number of files is limited.'],
  [/^a second name/, 'Some readers use the name in this field, others the one in the header.'],
  [/^extra bytes that are no field/, 'Readers differ in how they go on after a field that they cannot read.'],
  [/^false 64-bit sizes/, 'Readers differ in when they believe the 64-bit field.'],
  [/^a name that is not plain/, 'Such names mean another file after unpacking, or none on some systems.'],
  [/^a device name/, 'Windows opens a device in place of the file.'],
  [/^a control character/, 'Readers cut names at NUL, and terminals obey the rest.'],
  [/^an invisible or direction/, 'Two names could look the same.'],
  [/^a name that is not UTF-8/, 'Readers guess different encodings.'],
  [/^a long or deep name/, 'It cannot be unpacked on some systems.'],
  [/^the same name twice/, 'Some readers take the first, others the last.'],
  [/^names equal by/, 'Unpacked, one replaces the other on file systems of macOS and Windows.'],
  [/^a file that is a folder/, 'Unpacked, one replaces the other, or the unpacking fails.'],
  [
    /^a flag in both/,
    'Allowed are the hints of deflate, the descriptor and UTF-8. Others change the data or are not defined.',
  ],
  [
    /^a UTF-8 name/,
    'Finder and others write UTF-8 without saying so. Python and yauzl show such names as code page 437.',
  ],
  [/^(local|descriptor):/, 'Stream readers believe this record, others the directory. yauzl does not read it.'],
  [
    /^central: (name|extra|comment) length/,
    'The length does not fit the directory. Some lengths fit by chance in yauzl.',
  ],
  [/^central: crc/, 'yauzl does not compare the checksum with the data.'],
  [/^central: disk/, 'Zips of several disks are refused.'],
  [/^central: external/, 'It would be a link or a device.'],
  [/^central:/, 'The directory must say the same as the local header.'],
  [
    /^(end|end 64|locator):/,
    'All end records must agree with each other and with the directory. Readers differ in which field they use.',
  ],
  [
    /^Go: descriptors of 64 bits/,
    'Sizes of 64 bits need the 64-bit field. Without it, readers differ in where the descriptor ends.',
  ],
  [/^Go: false descriptors/, 'Stream readers believe the descriptor. yauzl reads neither it nor the checksum.'],
  [/^Go: a false checksum/, 'yauzl does not compare the checksum with the data.'],
  [
    /^Go: bytes around/,
    'A reader that starts at the front, or at the first signature from the back, would find another package.',
  ],
  [/^Go: a directory/, 'All end records must agree with the directory. yauzl does not read its length.'],
  [
    /^Go: false comments/,
    'Readers search for the end record from the back, so its signature may not stand in a comment. Others may.',
  ],
  [/^(Go: links|zip-slip: through a link)/, 'It would point out of the package. yauzl leaves the mode to its caller.'],
  [/^Go: folders twice/, 'Some readers take the first, others the last.'],
  [/^Go: folders with data/, 'Unpacked it is a folder for some readers and a file for others.'],
  [/^Go: extra fields/, 'Readers differ in how they go on after a field that they cannot read.'],
  [
    /^Go: false 64-bit records/,
    'Readers differ in when they believe the 64-bit records. Records of version 2 are not read.',
  ],
  [/^libarchive: encryption/, 'Encrypted files cannot be reviewed.'],
  [/^libarchive: (padding|programs)/, 'As above: bytes of no entry may be another package for another reader.'],
  [/^libarchive: several/, 'Zips of several disks are refused, and so are their markers.'],
  [/^libarchive: names/, 'Readers guess different encodings.'],
  [/^libarchive: damaged/, 'The records must fit the data. yauzl does not compare them all.'],
  [/^zip-slip: from the root/, 'A colon names a drive or a stream on Windows.'],
  [
    /^zip-slip: characters/,
    'They are characters of a name like any other, for every reader: nothing here decodes a name twice or makes them separators.',
  ],
  [/^zip-slip: ends/, 'Windows drops dots and spaces at the end of a name. A no-break space it keeps.'],
  [/^zip-slip: slashes/, 'Readers that decode them leniently find a separator.'],
  [/^zip-slip: two names/, 'Both names must be the same.'],
  [/^zip-slip: in the only/, 'The folder that is left out must have a plain name, too.'],
];

/** Kinds of which yauzl and Python see other names. */
export const OTHER_NAMES: readonly string[] = ['a UTF-8 name without the flag'];

export const explain = (kind: string): string => reasons.find(([pattern]) => pattern.test(kind))?.[1] ?? '';
