/** A plugin's icon: its initials on a colour derived from its slug. */
interface Props {
  readonly slug: string;
  readonly name: string;
  readonly size?: number;
}

export function PluginIcon({ slug, name, size = 40 }: Props) {
  const hue = computeHue(slug);
  const background = `linear-gradient(145deg, oklch(0.56 0.15 ${hue}), oklch(0.42 0.13 ${(hue + 35) % 360}))`;
  return (
    <span className="plugin-icon" aria-hidden style={{ background, width: size, height: size, fontSize: size * 0.4 }}>
      {getInitials(name)}
    </span>
  );
}

function computeHue(slug: string): number {
  let sum = 0;
  for (const char of slug) sum = (sum * 31 + (char.codePointAt(0) ?? 0)) % 9973;
  return sum % 360;
}

const getInitials = (name: string): string =>
  name
    .split(/\s+/)
    .slice(0, 2)
    .map((word) => [...word][0]?.toUpperCase() ?? '')
    .join('');
