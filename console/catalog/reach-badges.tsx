/** Shows the riskiest capability and the number of others. A tooltip lists all of them. */
import { Stack, Tooltip } from '@mantine/core';
import { IconShieldCheck } from '../style/icons.tsx';
import { type Reach, RISK_TONES, sortByRisk } from './risks.ts';

export function ReachBadges({ reach }: { readonly reach: Reach }) {
  const sorted = sortByRisk(reach);
  const [worst, ...others] = sorted;
  if (!worst) {
    return (
      <span className="reach-summary">
        <span className="with-icon">
          <IconShieldCheck size={14} stroke={1.8} />
          Requests no access
        </span>
      </span>
    );
  }
  return (
    <Tooltip multiline maw={360} label={<Sentences of={sorted} />}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: keyboard users open the tooltip by focusing it */}
      <div className="reach-summary" tabIndex={0}>
        <span className="risk" data-tone={RISK_TONES[worst.risk]}>
          {worst.risk} risk
        </span>
        <span>{worst.sentence}</span>
        {others.length > 0 ? <span>+{others.length}</span> : null}
      </div>
    </Tooltip>
  );
}

function Sentences({ of }: { readonly of: Reach }) {
  return (
    <Stack gap={4} fz="xs">
      {of.map(({ capability, sentence, risk }) => (
        <div key={capability}>
          {sentence} ({risk})
        </div>
      ))}
    </Stack>
  );
}
