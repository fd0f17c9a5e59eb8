/** Where one can go from everywhere. */
import { IconBuildingStore } from '@tabler/icons-react';

export const places = [{ to: '/catalog', label: 'Catalog', icon: IconBuildingStore }] as const;
