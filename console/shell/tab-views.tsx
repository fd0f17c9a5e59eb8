/** Tabs with a view each. The page keeps the name of the selected one in its address. */
import { Tabs } from '@mantine/core';
import type { ReactNode } from 'react';

interface TabViewsProps<Name extends string> {
  readonly label: string;
  readonly tabs: readonly { readonly name: Name; readonly label: string }[];
  readonly selected: Name;
  readonly onSelect: (name: Name) => void;
  readonly views: Readonly<Record<Name, ReactNode>>;
}

export function TabViews<Name extends string>({ label, tabs, selected, onSelect, views }: TabViewsProps<Name>) {
  const select = (next: string | null) => {
    const known = tabs.find(({ name }) => name === next);
    if (known) onSelect(known.name);
  };
  return (
    <Tabs value={selected} onChange={select} keepMounted={false}>
      <Tabs.List aria-label={label}>
        {tabs.map(({ name, label }) => (
          <Tabs.Tab key={name} value={name}>
            {label}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      {tabs.map(({ name }) => (
        <Tabs.Panel key={name} value={name} pt="md">
          {views[name]}
        </Tabs.Panel>
      ))}
    </Tabs>
  );
}
