/** Lists what a plugin can access, the riskiest first. */
import { Group, List, Text } from '@mantine/core';
import { Monospace } from '../shell/monospace.tsx';
import { escapeText } from '../style/untrusted-text.ts';
import { ReachIcon } from './reach-icon.tsx';
import { type Reach, RISK_TONES, sortByRisk } from './risks.ts';

/** With what their authors tell models about them. */
export type Tools = readonly { readonly name: string; readonly description: string }[];

interface ReachListProps {
  readonly reach: Reach;
  readonly none?: string;
  readonly tools?: Tools;
}

export function ReachList({ reach, none, tools = [] }: ReachListProps) {
  const describe = (capability: string) => tools.find(({ name }) => capability === `tools.${name}`)?.description ?? '';
  if (reach.length === 0) return <Text c="dimmed">{none ?? 'It has no access.'}</Text>;
  return (
    <List listStyleType="none" spacing={12}>
      {sortByRisk(reach).map(({ capability, sentence, risk }) => (
        <List.Item key={capability} styles={{ itemWrapper: { width: '100%' }, itemLabel: { width: '100%' } }}>
          <Group gap="sm" wrap="nowrap" align="flex-start">
            <span className="tile" data-tone={RISK_TONES[risk]}>
              <ReachIcon capability={capability} />
            </span>
            <div>
              <Text size="sm" lh={1.45}>
                {sentence}
              </Text>
              {describe(capability) === '' ? null : (
                <Text size="sm" c="dimmed" lh={1.45} className="foreign">
                  {escapeText(describe(capability))}
                </Text>
              )}
              <Group gap="xs" align="baseline" style={{ rowGap: 0 }}>
                <span className="risk" data-tone={RISK_TONES[risk]}>
                  {risk} risk
                </span>
                <Text span c="dimmed">
                  <Monospace>{capability}</Monospace>
                </Text>
              </Group>
            </div>
          </Group>
        </List.Item>
      ))}
    </List>
  );
}
