/** A plugin's sign: its first letters on a colour of its own, always the same one, without a picture from anywhere. */
interface Shown {
  readonly slug: string;
  readonly name: string;
  readonly size?: number;
}

export function PluginIcon({ slug, name, size = 40 }: Shown) {
  const hue = hueOf(slug);
  const background = `linear-gradient(135deg, hsl(${hue} 60% 34%), hsl(${(hue + 40) % 360} 65% 26%))`;
  return (
    <span className="plugin-icon" aria-hidden style={{ background, width: size, height: size, fontSize: size * 0.4 }}>
      {lettersOf(name)}
    </span>
  );
}

function hueOf(slug: string): number {
  let sum = 0;
  for (const char of slug) sum = (sum * 31 + (char.codePointAt(0) ?? 0)) % 9973;
  return sum % 360;
}

const lettersOf = (name: string): string =>
  name
    .split(/\s+/)
    .slice(0, 2)
    .map((word) => [...word][0]?.toUpperCase() ?? '')
    .join('');
